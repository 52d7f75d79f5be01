#pragma once
// What a page about one plan shows, as JSON for reports/html/plan.js.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/prediction/prediction.hpp"

namespace tandem {

struct PlanReport {
  const Plan& plan;
  const TaskGraph& graph;
  const Prediction& prediction;  ///< with timeline and memory over time
  std::string device;            ///< its name
  Bytes device_memory;
  std::vector<std::string> unverified;  ///< facts that no text states
};

/// JSON text. Of many roles some are shown, the critical and the heaviest among them; long curves are thinned, peaks
/// kept.
std::string plan_report_json(const PlanReport& report);

}  // namespace tandem
