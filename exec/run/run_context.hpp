#pragma once
// One graph of a run, as all ranks see it.

#include <vector>

#include "exec/data/batch_reader.hpp"
#include "exec/data/data.hpp"
#include "exec/run/step_order.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// What the ranks share while they run one graph, immutable.
struct RunContext {
  const Plan& plan;
  const TaskGraph& graph;
  const TokenSource& data;
  Mesh mesh;
  std::vector<StepOrder> orders;  ///< by stage
  std::vector<std::vector<InputSlot>> inputs;  ///< by template
};

}  // namespace tandem::exec
