#include <algorithm>

#include "experiments/tandem/planning/answer.hpp"
#include "experiments/tandem/planning/changes.hpp"

namespace tandem::planning {

void require_conditions(const Request& request, const Facts& facts, const std::vector<Assessment>& places) {
  std::vector<std::string> clusters = changed_clusters(request);
  for (const Assessment& a : places) {
    const std::string& preset = a.plan.cluster.preset;
    if (std::find(clusters.begin(), clusters.end(), preset) == clusters.end()) clusters.push_back(preset);
  }
  require_price_clusters(request.price, clusters);
  std::vector<Problem> problems;
  for (const Assessment& a : places) {
    if (conditions_of(request, facts, a).price || !asks_for_price(request)) continue;
    Problem p = no_price(request, facts, a);
    const auto known = [&](const Problem& other) { return other.value == p.value; };
    if (std::none_of(problems.begin(), problems.end(), known)) problems.push_back(std::move(p));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace tandem::planning
