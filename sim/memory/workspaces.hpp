#pragma once
// What libraries keep of a framework's allocator on a device.

#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Workspaces of cuBLAS, of the forward and of the backward thread: the device's own size, or 32 MiB each for the same bits in every run, for
/// which PyTorch's deterministic algorithms want CUBLAS_WORKSPACE_CONFIG=:4096:8. Nothing on a device without.
Bytes library_memory(const Plan& plan, const Device& device);

}  // namespace tandem::sim
