#pragma once
// Several steps as one graph. Ranks do not wait for each other between steps: a rank begins the next step when it has ended one.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/engine/lane_program.hpp"

namespace tandem::sim {

/// `steps` steps of `graph` as one. A step's first task on a stream waits for all that its rank did in the step before. What validates
/// an update, the last instance of every program (models/lowering), is left out: each stage's host does it in front of the next
/// step's first backward pass (sail-sg/zero-bubble-pipeline-parallelism, branch arxiv: megatron/optimizer/optimizer.py,
/// recv_post_validation), which comes after the last stage's update anyhow. Only what a simulation reads is there: no bindings, no
/// parameters, no memory.
TaskGraph repeated_steps(const TaskGraph& graph, std::int64_t steps);

/// The last task of step `step` on each stream that it uses, in the program that repeated_steps() made of `one`.
std::vector<Place> last_tasks(const TaskGraph& graph, const Program& one, std::int64_t step);

}  // namespace tandem::sim
