#pragma once
// Where the time of a step went, read off its spans.

#include <string>
#include <utility>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// What a lane did at each moment of the step, added up by what it was; the parts add up to the step time. Computing hides
/// everything else: a part is a phase of the compute stream ("forward", "backward", ...), else what runs on another stream while
/// nothing computes (of several the first of "tensor_comm", "context_comm", "expert_comm", "data_comm", "pipeline_comm",
/// "host_copy"), else "waiting". In that order; parts without time are left out.
using TimeShares = std::vector<std::pair<std::string, Duration>>;
TimeShares time_shares(const SavedTimeline& timeline, const SavedLane& lane);

}  // namespace tandem
