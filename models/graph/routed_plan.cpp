#include "models/graph/routed_plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

namespace tandem {

bool depends_on_routing(const Plan& plan) {
  return plan.model.moe.num_experts > 0 && plan.expert_capacity() == 0 && plan.parallel.expert > 1;
}

bool RoutedTokens::complete(const std::vector<RouterCounts>& numbers) const {
  std::map<std::pair<std::int32_t, std::int32_t>, int> seen;
  for (const RouterCounts& c : numbers) {
    const bool whole = std::ssize(c.counts) == experts && *std::min_element(c.counts.begin(), c.counts.end()) >= 0 &&
                       std::accumulate(c.counts.begin(), c.counts.end(), std::int64_t{0}) == choices && c.layer >= 0 &&
                       c.layer < std::ssize(layers) && layers[static_cast<std::size_t>(c.layer)] && c.micro_batch >= 0 &&
                       c.micro_batch < micro_batches;
    if (!whole || ++seen[{c.layer, c.micro_batch}] > 1) return false;
  }
  return std::ssize(seen) == std::count(layers.begin(), layers.end(), true) * micro_batches;
}

RoutedTokens routed_tokens(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  RoutedTokens t;
  for (std::int64_t l = 0; l < plan.model.total_blocks(); ++l) t.layers.push_back(plan.model.kind(l).has_experts());
  t.micro_batches = plan.micro_batches();
  t.experts = plan.model.moe.num_experts;
  t.choices = plan.micro_batch_tokens() / (q.context * (q.sequence_parallel ? q.tensor : 1)) * plan.model.moe.experts_per_token;
  return t;
}

}  // namespace tandem
