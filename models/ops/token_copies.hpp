#pragma once
// How many copies of a token travel if each rank, and each node, with any of its experts gets one copy.

#include <cstdint>

#include "models/ops/communication.hpp"

namespace tandem {

/// Share of tokens, 0 to 1, with an expert on one of `parts` equal parts of the group (nodes or ranks, experts in order). All
/// choices that the router allows are equally likely: groups first, then experts in them. `parts` must divide `c.experts`.
double share_that_visits(const TokenCopies& c, std::int64_t parts);

}  // namespace tandem
