#include "sim/cost/countable.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reports/prediction/text.hpp"
#include "sim/engine/play.hpp"

namespace tandem::sim {
namespace {

static_assert(kLongestPicoseconds <= std::numeric_limits<std::int64_t>::max() / 2);

std::string too_long() {
  return "longer than is simulated (" + std::to_string(kLongestSeconds) + " s, " + std::to_string(kLongestSeconds / 86400) + " days)";
}

[[noreturn]] void refuse() {
  throw Uncountable(Problem{"", "training.global_batch_size", "", "a step may take " + too_long(),
                            "use more or faster devices, or a smaller batch"});
}

double seconds(const Play& play, std::size_t role, const Slot& slot) {
  if (slot.exchange < 0) return static_cast<double>(slot.duration) * 1e-12;
  return play.quotient.exchanges[play.quotient.roles[role].exchanges[static_cast<std::size_t>(slot.exchange)]].alone.seconds();
}

/// How often each template occurs in a stage's program.
std::vector<double> occurrences(const TaskGraph& graph, const Program& program) {
  std::vector<double> out(graph.templates.size());
  for (const Instance& i : program.instances) ++out[i.tmpl.index()];
  return out;
}

double seconds_of_role(const Play& play, std::size_t role, const std::vector<double>& occurs) {
  const std::vector<Slot>& slots = play.quotient.slots(role);
  double sum = 0;
  for (const std::uint32_t t : play.catalogue.templates[play.roles[role].stage.index()])
    for (std::uint32_t s = play.catalogue.first_slot[t]; s < play.catalogue.first_slot[t + 1]; ++s)
      sum += occurs[t] * seconds(play, role, slots[s]);
  return sum;
}

}  // namespace

Duration countable(double seconds) {
  if (!(seconds <= static_cast<double>(kLongestSeconds))) refuse();
  return Duration::seconds(seconds);
}

Duration slowed(Duration full, double share) {
  const double ps = static_cast<double>(full.ps()) / share;
  if (!(ps <= static_cast<double>(kLongestPicoseconds))) refuse();
  return Duration::picoseconds(std::llround(ps));
}

void refuse_message() {
  throw Uncountable(Problem{"", "cluster", "", "a message alone takes " + too_long(), "give it faster links"});
}

void refuse_perturbation(Duration undisturbed) {
  throw Uncountable(Problem{"", "cluster.perturbation", "",
                            "a step that takes " + time_text(undisturbed.seconds()) + " without it may take " + too_long(),
                            "use larger factors"});
}

void require_countable(const Scene& scene, const Play& play) {
  std::vector<std::vector<double>> occurs;
  for (const Program& p : scene.graph.programs) occurs.push_back(occurrences(scene.graph, p));
  std::vector<double> longest(occurs.size());
  for (std::size_t r = 0; r < play.roles.size(); ++r) {
    double& of_stage = longest[play.roles[r].stage.index()];
    of_stage = std::max(of_stage, seconds_of_role(play, r, occurs[play.roles[r].stage.index()]));
  }
  if (std::accumulate(longest.begin(), longest.end(), 0.0) > static_cast<double>(kLongestSeconds)) refuse();
}

}  // namespace tandem::sim
