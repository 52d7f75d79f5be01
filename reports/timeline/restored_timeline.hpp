#pragma once
// A saved timeline laid back over the graph of its plan.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// The timeline whose file form is `saved`, by the instances and tasks of `graph`, which is its plan's. Spans of equal name stand
/// for the tasks of that name in issue order. Throws ConfigError (with `file` in it) where the graph lacks a task: a program that
/// lowers the plan otherwise wrote the file. Only the lanes `chosen` have spans.
Timeline restored(const SavedTimeline& saved, const TaskGraph& graph, const std::string& file,
                  const std::vector<std::size_t>& chosen);

}  // namespace tandem
