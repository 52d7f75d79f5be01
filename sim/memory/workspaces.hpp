#pragma once
// Memory that libraries and kernels take on a device beside the tensors.

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Bytes of cuBLAS's workspaces, of the forward and the backward thread: the device's default, or at least 32 MiB each in
/// deterministic training, for which PyTorch requires CUBLAS_WORKSPACE_CONFIG=:4096:8. 0 on a device without cuBLAS.
Bytes library_memory(const Plan& plan, const Device& device);

/// Scratch memory that stack `tandem`'s kernels for recurrences take on a CUDA device: of the program's task that needs most, as the
/// tasks of a rank share one buffer. 0 for other stacks and devices. Scratch memory of other kernels is not counted.
Bytes kernel_scratch(const Plan& plan, const CommFit& fit, const TaskGraph& graph, const Program& program);

}  // namespace tandem::sim
