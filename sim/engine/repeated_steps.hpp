#pragma once
// Several steps as one graph. Ranks do not wait for each other between steps: a rank begins the next step when it has ended one.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/engine/lane_program.hpp"

namespace tandem::sim {

/// Returns `steps` steps of `graph` as one graph. A step's first task on a stream waits for all of its rank's step before. The last
/// instance of every program, which validates the update (models/lowering), is left out. Each stage's host does that before the
/// next step's first backward pass (sail-sg/zero-bubble-pipeline-parallelism, branch arxiv: megatron/optimizer/optimizer.py,
/// recv_post_validation), which comes after the last stage's update anyhow. The graph has no bindings, parameters or memory: no
/// simulation reads them.
TaskGraph repeated_steps(const TaskGraph& graph, std::int64_t steps);

/// The last task of step `step` on each stream that it uses, in the program that repeated_steps() made of `one`.
std::vector<Place> last_tasks(const TaskGraph& graph, const Program& one, std::int64_t step);

}  // namespace tandem::sim
