#pragma once
// The bodies of launch(), for files that say which kernels they make.

#include <limits>

#include "exec/cuda/device_block.cuh"
#include "exec/cuda/launch.hpp"
#include "exec/cuda/resources.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::cuda {

template <class Kernel, class Storage>
__global__ void __launch_bounds__(device::kThreads) kernel_of(const __grid_constant__ Kernel kernel) {
  DeviceBlock block;
  kernel.template run<Storage>(block);
}

template <class Kernel, class Storage>
void launch_as(const Kernel& kernel, const device::Grid& grid, cudaStream_t stream) {
  constexpr std::size_t kAlwaysShared = std::size_t{48} << 10;  // more must be asked for, once a kernel and device
  if (grid.shared_bytes > kAlwaysShared)
    check(cudaFuncSetAttribute(kernel_of<Kernel, Storage>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes)),
          "asking for shared memory");
  kernel_of<Kernel, Storage><<<static_cast<unsigned>(grid.blocks), device::kThreads, grid.shared_bytes, stream>>>(kernel);
  check(cudaGetLastError(), "launching a kernel");
}

template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream) {
  const device::Grid grid = kernel.grid();
  if (grid.blocks == 0) return;
  require(grid.blocks > 0 && grid.blocks <= std::numeric_limits<int>::max(), "more blocks than a kernel can have");
  device::with_storage(kernel.form, [&](auto storage) { launch_as<Kernel, decltype(storage)>(kernel, grid, stream); });
}

}  // namespace tandem::exec::cuda

/// Written once for each kernel.
#define TANDEM_LAUNCH(Kernel) template void tandem::exec::cuda::launch(const tandem::exec::device::Kernel&, cudaStream_t)
