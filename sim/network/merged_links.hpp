#pragma once
// Links in a row: where all flows of one are all flows of another, only the slower one can hold them up.

#include <vector>

#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// Leaves the slowest of the links that carry the same flows of the same uses, for the slowest is tight whenever another of them is:
/// rates stay what they were to the last bit. Links whose capacity depends on their users stay. Those that nobody uses go. Links are
/// numbered anew, in order of first use, so that those of one use lie together.
void merge_links(std::vector<Capacity>& links, std::vector<std::vector<LinkUse>>& uses);

}  // namespace tandem::sim
