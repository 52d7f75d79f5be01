#pragma once
// A traced rank's steps in the figures that a simulation has, too.

#include <string>
#include <vector>

#include "reports/trace/group_names.hpp"
#include "reports/trace/rank_step.hpp"
#include "reports/trace/trace_rules.hpp"
#include "reports/trace/trace_steps.hpp"

namespace tandem {

/// What a trace says about its rank.
struct MeasuredRank {
  std::vector<RankStep> steps;  ///< those that count
  RankStep typical;             ///< the median of each figure
};

/// Figures of each step of a trace. Work counts for the step that launched it; busy and idle time count what runs within the step.
MeasuredRank measured_rank(const DeviceTrace& trace, const TraceSteps& steps, const GroupNames& groups, const TraceRules& rules);

}  // namespace tandem
