#pragma once
// FLOPs that a step needs without recomputation, as opposed to those that a device does.

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Rows of one rank's tokens in one layer of experts. `asked`: top_k per token. `room`: rows
/// that the experts multiply; with a capacity this is their capacity, else equal to `asked`.
struct ExpertRows {
  std::int64_t asked = 1, room = 1;
};
/// Reads the rows from the first router of a graph; all routers are alike.
ExpertRows expert_rows(const TaskGraph& graph);

/// Matrix FLOPs of a task in an instance of `phase`, without recomputation: of blocks, of forward
/// products in a backward pass (selective recomputation) unless they repeat none (logits of a loss in chunks), and of
/// the scores in flash attention's backward kernel, where the other four products are gradients (arXiv 2205.14135
/// section 3.1). Products of experts count the rows that the router asks for, up to the capacity if tokens spread
/// evenly. Empty places of a large capacity do not count, nor tokens that a small one drops. The result never
/// exceeds matrix_flops.
Flops model_flops(const Task& task, Phase phase, const ExpertRows& rows);

}  // namespace tandem
