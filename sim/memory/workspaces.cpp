#include "sim/memory/workspaces.hpp"

#include <algorithm>

namespace tandem::sim {

namespace {

/// Eight buffers of 4096 KiB for each of two threads (PyTorch documentation, torch.use_deterministic_algorithms; pytorch/pytorch:
/// aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize, in place of :4096:2:16:8 before Hopper and :4096:8 on it).
constexpr Bytes kDeterministic(2LL * 8 * 4096 * 1024);

}  // namespace

Bytes library_memory(const Plan& plan, const Device& device) {
  const bool set = plan.training.deterministic && device.library_memory > Bytes(0);
  return set ? std::max(device.library_memory, kDeterministic) : device.library_memory;
}

}  // namespace tandem::sim
