#pragma once
// What a page about a timeline file shows, or about a prediction beside its measurement, as JSON for reports/html/run.js.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/compare/compare.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// A timeline file with the plan and the graph that it is of.
struct RunSide {
  const std::string& file;
  const SavedTimeline& timeline;
  const Plan& plan;
  const TaskGraph& graph;
};

/// JSON text: step, shares of time, timeline, memory and, where the file has one, the history of the run. Of many ranks some are
/// shown. Throws ConfigError where the graph lacks a task of the file.
std::string run_report_json(const RunSide& run);

/// The same of `second`, and of `first` for the ranks that are shown, with `comparison`, which is theirs.
std::string comparison_report_json(const RunSide& first, const RunSide& second, const Comparison& comparison);

}  // namespace tandem
