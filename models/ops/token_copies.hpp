#pragma once
// How many copies of a token travel where a copy goes once to each rank, and once to each node, that holds any of its experts.

#include <cstdint>

#include "models/ops/communication.hpp"

namespace tandem {

/// Share of all tokens that have an expert on one of `parts` equal parts of the group (nodes or ranks, experts in order), where every
/// choice that the router allows is as likely: groups first, then experts of them. 0 to 1; `parts` divides `c.experts`.
double share_that_visits(const TokenCopies& c, std::int64_t parts);

}  // namespace tandem
