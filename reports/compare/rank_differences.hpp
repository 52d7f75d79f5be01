#pragma once
// Which ranks of two timelines compute for different times.

#include <cstdint>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Ranks that are alike in both timelines, and how long they compute in each: waiting for other ranks does not count.
struct RankDifference {
  std::vector<std::int32_t> ranks;          ///< ascending, never empty
  std::size_t first_lane = 0, second_lane = 0;  ///< the lanes that stand for them
  Duration first, second;                   ///< while at least one task of the compute stream runs
};

/// All ranks that both timelines have, split where the roles of either are split; largest difference first, equal ones by rank.
std::vector<RankDifference> rank_differences(const SavedTimeline& first, const SavedTimeline& second);

}  // namespace tandem
