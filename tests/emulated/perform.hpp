#pragma once
// A kernel of exec/device on the host, block by block.

#include <limits>

#include "exec/device/typed.hpp"
#include "models/base/error.hpp"
#include "tests/emulated/host_block.hpp"
#include "tests/emulated/performed.hpp"

namespace tandem::tests {

template <class Kernel>
void perform_kernel(const Kernel& kernel) {
  const exec::device::Grid grid = kernel.grid();
  require(grid.blocks >= 0 && grid.blocks <= std::numeric_limits<int>::max(), "more blocks than a kernel can have");
  require(grid.shared_bytes <= kMostShared, "more shared memory than a block can have");
  exec::device::with_variant(kernel, [&](auto variant) {
    for (std::int64_t b = 0; b < grid.blocks; ++b) {
      HostBlock<exec::device::threads_of<Kernel>()> block(b, grid.shared_bytes + grid.more_bytes);
      kernel.template run<decltype(variant)>(block);
    }
  });
}

}  // namespace tandem::tests
