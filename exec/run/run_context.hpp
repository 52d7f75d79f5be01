#pragma once
// One task graph of a run, with everything that all ranks share.

#include <vector>

#include "exec/data/batch_reader.hpp"
#include "exec/data/data.hpp"
#include "exec/run/step_order.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// The immutable data that all ranks share while they run one task graph.
struct RunContext {
  const Plan& plan;
  const TaskGraph& graph;
  const TokenSource& data;
  Mesh mesh;
  std::vector<StepOrder> orders;  ///< by stage
  std::vector<std::vector<InputSlot>> inputs;  ///< by template
};

}  // namespace tandem::exec
