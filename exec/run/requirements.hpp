#pragma once
// Checks before a run starts.

#include <cstdint>

#include "exec/backend/backend.hpp"
#include "exec/state/saved_state.hpp"
#include "models/graph/segments.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// Throws ConfigError if a run of `steps` steps does not go on from the resumed state (goes_on). nullptr: nothing is resumed, so it
/// passes.
void require_steps_left(const SavedState* resume, std::int64_t steps, const EvaluationRhythm& evaluation);

/// Throws InfeasibleError if the backend cannot perform one of the graph's computations with its operand types.
void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend);

}  // namespace tandem::exec
