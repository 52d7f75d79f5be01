#pragma once
// Maps a saved timeline back to the graph of its plan.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Returns the timeline of `saved` with the instances and tasks of `graph`, its plan's graph. Spans of equal name belong to the
/// tasks of that name in issue order. Throws ConfigError (naming `file`) if the graph lacks a task: another version of the lowering
/// wrote the file. Only the lanes `chosen` have spans.
Timeline restored(const SavedTimeline& saved, const TaskGraph& graph, const std::string& file,
                  const std::vector<std::size_t>& chosen);

}  // namespace tandem
