#pragma once
// Stands for exec/cuda/launch.cuh where works_*.cu are compiled for the host: the same kernels, performed block by block.

#include <algorithm>
#include <limits>

#include "exec/cuda/launch.hpp"
#include "exec/cuda/resources.hpp"
#include "exec/device/rows.hpp"
#include "tests/emulated/performed.hpp"
#include "tests/hostcuda/runtime/issue.hpp"

namespace tandem::exec::cuda {

template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream) {
  const device::Grid grid = kernel.grid();
  if (grid.blocks == 0) return;
  require(grid.blocks > 0 && grid.blocks <= std::numeric_limits<int>::max(), "more blocks than a kernel can have");
  check(hostcuda::issue(stream, [kernel] { tests::perform_kernel(kernel); }), "launching a kernel");
}

}  // namespace tandem::exec::cuda

/// Instantiates launch() for a kernel.
#define TANDEM_LAUNCH(Kernel) template void tandem::exec::cuda::launch(const tandem::exec::device::Kernel&, cudaStream_t)
