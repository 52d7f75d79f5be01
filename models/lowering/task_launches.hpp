#pragma once
// Number of host operations of the framework for each task of a graph.

#include "models/graph/task_graph.hpp"
#include "models/plan/stack_facts.hpp"

namespace tandem::lowering {

/// Sets `Task::host_operations` of all tasks. A template shared by stages has the count of the stage with most parameters.
void count_host_operations(TaskGraph& graph, const HostOperations& of_stack);

/// Copies `tmpl`; only its first task has host operations. Throws ContractError if `operations` exceeds the field's range.
TemplateId add_launched_at_once(TaskGraph& graph, TemplateId tmpl, std::int64_t operations);

/// Moves all host operations after a program's last pass to the first task there, in a template of
/// its own. So no task starts before the host has issued all. Call after count_host_operations().
void record_updates(TaskGraph& graph);

}  // namespace tandem::lowering
