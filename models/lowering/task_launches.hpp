#pragma once
// How many operations of its framework the host has for each task of a graph.

#include "models/graph/task_graph.hpp"
#include "models/plan/stack_facts.hpp"

namespace tandem::lowering {

/// Sets `Task::host_operations` of all tasks. A template that stages share has as many as on the stage with most parameters.
void count_host_operations(TaskGraph& graph, const HostOperations& of_stack);

/// A template like `tmpl` whose first task alone has host operations, so many; throws ContractError where that is more than can be kept.
TemplateId add_launched_at_once(TaskGraph& graph, TemplateId tmpl, std::int64_t operations);

/// Gives what every program has behind its last pass templates of its own, whose host operations the first task has all of: nothing there begins
/// before the host has them. Counts are set.
void record_updates(TaskGraph& graph);

}  // namespace tandem::lowering
