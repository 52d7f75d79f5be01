#pragma once
// Definition of launch(), for files that instantiate it for their kernels.

#include <algorithm>
#include <limits>

#include "exec/cuda/device_block.cuh"
#include "exec/cuda/launch.hpp"
#include "exec/cuda/resources.hpp"
#include "exec/device/rows.hpp"

namespace tandem::exec::cuda {

template <class Kernel, class Variant>
__global__ void __launch_bounds__(device::threads_of<Kernel>(), device::resident_blocks<Kernel, Variant>()) kernel_of(const __grid_constant__ Kernel kernel) {
  DeviceBlock<device::threads_of<Kernel>()> block;
  kernel.template run<Variant>(block);
}

/// Dynamic shared memory that a block of the kernel can have, in bytes. The first call makes it available.
template <class Kernel, class Variant>
std::size_t most_shared() {
  static const std::size_t most = [] {
    int of_block = 0;
    cudaFuncAttributes own{};
    const auto* kernel = reinterpret_cast<const void*>(&kernel_of<Kernel, Variant>);
    check(cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "asking for the device's shared memory");
    check(cudaFuncGetAttributes(&own, kernel), "asking for a kernel's shared memory");
    require(own.sharedSizeBytes <= kMostOwnShared, "a kernel has more shared memory of its own than is kept for it");
    const int rest = of_block - static_cast<int>(own.sharedSizeBytes);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, rest), "asking for shared memory");
    return static_cast<std::size_t>(rest);
  }();
  return most;
}

template <class Kernel, class Variant>
void launch_as(const Kernel& kernel, const device::Grid& grid, cudaStream_t stream) {
  constexpr std::size_t kAlwaysShared = std::size_t{48} << 10;  // including the kernel's own; more must be requested
  std::size_t bytes = grid.shared_bytes + grid.more_bytes;
  if (bytes > kAlwaysShared / 2) bytes = std::max(grid.shared_bytes, std::min(bytes, most_shared<Kernel, Variant>()));
  kernel_of<Kernel, Variant><<<static_cast<unsigned>(grid.blocks), device::threads_of<Kernel>(), bytes, stream>>>(kernel);
  check(cudaGetLastError(), "launching a kernel");
}

template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream) {
  const device::Grid grid = kernel.grid();
  if (grid.blocks == 0) return;
  require(grid.blocks > 0 && grid.blocks <= std::numeric_limits<int>::max(), "more blocks than a kernel can have");
  device::with_variant(kernel, [&](auto variant) { launch_as<Kernel, decltype(variant)>(kernel, grid, stream); });
}

}  // namespace tandem::exec::cuda

/// Instantiates launch() for a kernel.
#define TANDEM_LAUNCH(Kernel) template void tandem::exec::cuda::launch(const tandem::exec::device::Kernel&, cudaStream_t)
