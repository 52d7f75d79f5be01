#pragma once
// Breakdown of a step's time, computed from its spans.

#include <string>
#include <utility>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Time of a lane's step by activity; the parts add up to the step time. Computation hides everything else: a moment counts as a
/// phase of the compute stream ("forward", "backward", ...), else as what runs on another stream (the first of "tensor_comm",
/// "context_comm", "expert_comm", "data_comm", "pipeline_comm", "host_copy"), else as "waiting". In that order; parts without time
/// are left out.
using TimeShares = std::vector<std::pair<std::string, Duration>>;
TimeShares time_shares(const SavedTimeline& timeline, const SavedLane& lane);

}  // namespace tandem
