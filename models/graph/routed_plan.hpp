#pragma once
// What routers of a plan's step give: which layers have one, and how many choices each makes.

#include <cstdint>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// Whether rows of experts, and with them FLOPs and times of single ranks, depend on what tokens choose: experts without a
/// capacity on several ranks.
bool depends_on_routing(const Plan& plan);

/// What one rank routes in a step.
struct RoutedTokens {
  std::vector<bool> layers;         ///< by global layer: it has experts
  std::int64_t micro_batches = 0;
  std::int64_t experts = 0;
  std::int64_t choices = 0;         ///< of the tokens of a micro-batch that this rank routes

  /// Whether `counts` has every layer of experts and every micro-batch once, with every token's choices in it.
  bool complete(const std::vector<RouterCounts>& counts) const;
};
RoutedTokens routed_tokens(const Plan& plan);

}  // namespace tandem
