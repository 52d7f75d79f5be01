#pragma once
// The values in a step's table before the step, and the loss scale that follows from them afterwards.

#include <cstdint>

#include "exec/backend/step_table.hpp"
#include "exec/run/learning_rate.hpp"
#include "exec/state/saved_state.hpp"
#include "models/graph/segments.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// A table for step `index` of a segment: its step number and first sample.
StepTable step_table(const Segment& segment, std::int64_t index);

/// Adds the values that the update reads: learning rate, Adam's bias corrections and loss scale. Skipped updates do not move the
/// learning rate's schedule (Megatron-LM and DeepSpeed: their schedulers step with the update); in samples each counts as this step's.
StepTable with_update(StepTable table, const OptimizerSpec& optimizer, const RunProgress& progress, const ScaleState& scale);

/// The loss scale after a step. All ranks compute the same value because all see the same gradient norm.
ScaleState behind(const StepTable& table, const ScaleState& before);

/// The loss scale of the first step: that of `resume`, or the plan's initial one if `resume` is nullptr.
ScaleState scale_at_start(const Plan& plan, const SavedState* resume);

}  // namespace tandem::exec
