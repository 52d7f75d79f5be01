#pragma once
// What a step has to compute whatever is kept of it, against all that it does compute.

#include "models/task_graph.hpp"

namespace tandem {

/// Matrix FLOPs of a task in an instance of `phase`, without those that are computed again in a backward pass: whole blocks,
/// products of a forward pass among those of a backward one (selective recomputation), and the scores that a backward kernel
/// without a score matrix makes again (arXiv 2205.14135 section 3.1: of its five products four are gradients).
Flops model_flops(const Task& task, Phase phase);

}  // namespace tandem
