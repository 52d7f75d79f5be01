#pragma once
// Whether the ranks of a process fit into its host's memory.

#include "exec/process/world.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// Throws InfeasibleError if the arenas of this process' ranks need more than the host has free. Linux lends memory that it does not
/// have, and would kill the process later. `graph`: of the plan's steps.
void require_host_memory(const Plan& plan, const TaskGraph& graph, const exec::World& world);

}  // namespace tandem::program
