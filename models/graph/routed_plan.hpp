#pragma once
// Which layers of a plan have a router, and how many tokens each routes.

#include <cstdint>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// Whether the rows of a rank's experts, and so its FLOPs and times,
/// depend on the routing: experts without a capacity on several ranks.
bool depends_on_routing(const Plan& plan);

/// Size of one rank's routing in a step.
struct RoutedTokens {
  std::vector<bool> layers;         ///< by global layer: whether it has experts
  std::int64_t micro_batches = 0;
  std::int64_t experts = 0;
  std::int64_t choices = 0;         ///< expert choices of one micro-batch's tokens on this rank

  /// Whether `counts` covers every expert layer and micro-batch exactly once, with all choices of all tokens.
  bool complete(const std::vector<RouterCounts>& counts) const;
};
RoutedTokens routed_tokens(const Plan& plan);

}  // namespace tandem
