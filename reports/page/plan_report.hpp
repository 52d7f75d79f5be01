#pragma once
// The data of a page about one plan, as JSON for reports/html/plan.js.

#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/prediction/prediction.hpp"

namespace tandem {

struct PlanReport {
  const Plan& plan;
  const TaskGraph& graph;
  const Prediction& prediction;  ///< with timeline and memory over time
  std::string device;            ///< name of the device
  Bytes device_memory;
  std::vector<std::string> unverified;  ///< facts that no source states
};

/// JSON text. If there are many roles, it has some of them, always the critical one and the one that needs most memory. Long curves are thinned,
/// peaks are kept.
std::string plan_report_json(const PlanReport& report);

}  // namespace tandem
