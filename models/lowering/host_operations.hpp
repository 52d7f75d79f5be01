#pragma once
// How many operations of its framework the host has for each task of a graph.

#include "models/host_operations.hpp"
#include "models/task_graph.hpp"

namespace tandem::lowering {

/// Sets `Task::host_operations` of all tasks. A template that stages share has as many as on the stage with most parameters.
void count_host_operations(TaskGraph& graph, const HostOperations& of_stack);

}  // namespace tandem::lowering
