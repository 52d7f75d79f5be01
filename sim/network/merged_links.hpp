#pragma once
// Merges links in a row: if all flows of one are all flows of another, only the slower one can limit them.

#include <vector>

#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// Keeps only the slowest of the links that carry the same flows of the same uses. It limits these flows whenever another of them
/// does, so rates stay equal to the last bit. Links whose capacity depends on their users stay; unused links are removed. Links are
/// renumbered in order of first use, so that those of one use lie together.
void merge_links(std::vector<Capacity>& links, std::vector<std::vector<LinkUse>>& uses);

}  // namespace tandem::sim
