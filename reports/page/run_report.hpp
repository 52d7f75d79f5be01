#pragma once
// The data of a page about a timeline file, or about a prediction beside its measurement, as JSON for reports/html/run.js.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/compare/compare.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// A timeline file with its plan and graph.
struct RunSide {
  const std::string& file;
  const SavedTimeline& timeline;
  const Plan& plan;
  const TaskGraph& graph;
};

/// JSON text: step, shares of time, timeline, memory and, if the file has one, the history of the run. If there are many ranks, it
/// has some of them. Throws ConfigError if the graph lacks a task of the file.
std::string run_report_json(const RunSide& run);

/// Likewise for `second`, and for the same ranks of `first`, with `comparison` of the two.
std::string comparison_report_json(const RunSide& first, const RunSide& second, const Comparison& comparison);

}  // namespace tandem
