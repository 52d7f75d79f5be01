#pragma once
// Workspaces that libraries take from a framework's allocator on a device.

#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Bytes of cuBLAS's workspaces, of the forward and the backward thread: the device's default, or at least 32 MiB each in
/// deterministic training, for which PyTorch wants CUBLAS_WORKSPACE_CONFIG=:4096:8. 0 on a device without cuBLAS.
Bytes library_memory(const Plan& plan, const Device& device);

}  // namespace tandem::sim
