#pragma once
// What a step has to compute whatever is kept of it, against all that it does compute.

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Rows of one rank's tokens in one layer of experts: those that the router asks for, one for every expert of every token, and those
/// that experts with a capacity have room for and multiply. Without a capacity the two are the same.
struct ExpertRows {
  std::int64_t asked = 1, room = 1;
};
/// As the routers of a graph have them, all alike.
ExpertRows expert_rows(const TaskGraph& graph);

/// Matrix FLOPs of a task in an instance of `phase`, without those that are computed again in a backward pass: whole blocks,
/// products of a forward pass among those of a backward one (selective recomputation), and the scores that a backward kernel
/// without a score matrix makes again (arXiv 2205.14135 section 3.1: of its five products four are gradients). Products of experts
/// count the rows that are asked for and have room where tokens spread evenly: neither places that stay empty with much capacity nor
/// tokens that are dropped with little, which the model so defined does not compute. So they are never more than matrix_flops.
Flops model_flops(const Task& task, Phase phase, const ExpertRows& rows);

}  // namespace tandem
