#pragma once
// Smaller numbers of devices with which a step is faster. A number with a large odd factor, such as 13 or 200, leaves few layouts.

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// The fastest step on a smaller number of devices.
struct Fewer {
  std::int64_t devices = 0;
  Simulated step;
};

/// At most two numbers from 3/4 of `devices` on that leave more layouts: the one with most factors of two, and the largest number of
/// whole nodes that divides the batch. None if the largest odd factor of `devices` is 1 or 3.
std::vector<std::int64_t> rounder_counts(std::int64_t devices, std::int64_t per_node, std::int64_t batch);

/// Searches `request` with the rounder counts, unless the first row of the answer shares the batch out over the odd factor. Returns the
/// fastest step that is faster than the first row. Throws program::Interrupted.
std::optional<Fewer> faster_with_fewer(const Request& request, const Search& search, const Answer& answer);

}  // namespace tandem::search
