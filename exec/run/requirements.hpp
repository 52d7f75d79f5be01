#pragma once
// What a run asks before it starts.

#include <cstdint>

#include "exec/backend/backend.hpp"
#include "exec/state/saved_state.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// Throws ConfigError where the state to resume is as far as the run would go; nullptr: nothing is resumed.
void require_steps_left(const SavedState* resume, std::int64_t steps);

/// Throws InfeasibleError where the backend cannot do one of the graph's computations in the types of its operands.
void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend);

}  // namespace tandem::exec
