#pragma once
// A simulated rank's step in the figures that a trace has, too.

#include <string>

#include "models/plan/mesh.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/trace/group_names.hpp"
#include "reports/trace/rank_step.hpp"
#include "reports/trace/trace_rules.hpp"

namespace tandem {

/// The lane that stands for a rank; null if the timeline has no such rank.
const SavedLane* lane_of(const SavedTimeline& timeline, std::int64_t rank);

/// The groups that a lane's collectives run over; "pipeline" for sends and receives.
UsedGroups used_groups(const SavedTimeline& timeline, const SavedLane& lane);

/// Figures of a lane's step. Tasks without payload, and collectives of groups of one, do not count as communication.
RankStep simulated_step(const SavedTimeline& timeline, const SavedLane& lane, const Mesh& mesh, const TraceRules& rules);

}  // namespace tandem
