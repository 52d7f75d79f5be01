#pragma once
// The numbers that a step's table begins with, and what it leaves for the next one.

#include <cstdint>

#include "exec/backend/step_table.hpp"
#include "exec/run/learning_rate.hpp"
#include "exec/state/saved_state.hpp"
#include "models/graph/segments.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// Which step and samples the step `index` of a segment is.
StepTable step_table(const Segment& segment, std::int64_t index);

/// The same with what its update reads: the learning rate, Adam's corrections and the loss scale.
StepTable with_update(StepTable table, const OptimizerSpec& optimizer, const RunProgress& progress, const ScaleState& scale);

/// The loss scale behind a step, by the table as it left it: every rank has found the same, for all have seen the same norm.
ScaleState behind(const StepTable& table, const ScaleState& before);

/// The loss scale of the first step; nullptr: nothing is resumed.
ScaleState scale_at_start(const Plan& plan, const SavedState* resume);

}  // namespace tandem::exec
