#pragma once
// Kernels of exec/device on the host, where their code is not instantiated again.

#include <cstddef>

namespace tandem::tests {

/// Dynamic shared memory in bytes that a Hopper's block has at most, less what kernels have of their own.
inline constexpr std::size_t kMostShared = std::size_t{225} << 10;

/// Performs a kernel block by block. Throws ContractError if a device could not launch it. Instantiated for every kernel in
/// exec/cuda/works_*.cu, which the tests compile for the host.
template <class Kernel>
void perform_kernel(const Kernel& kernel);

}  // namespace tandem::tests
