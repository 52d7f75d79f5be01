#pragma once
// A kernel of exec/device on the host, block by block.

#include "exec/device/typed.hpp"
#include "tests/emulated/host_block.hpp"

namespace tandem::tests {

template <class Kernel>
void perform_kernel(const Kernel& kernel) {
  const exec::device::Grid grid = kernel.grid();
  exec::device::with_variant(kernel, [&](auto variant) {
    for (std::int64_t b = 0; b < grid.blocks; ++b) {
      HostBlock<exec::device::threads_of<Kernel>()> block(b, grid.shared_bytes + grid.more_bytes);
      kernel.template run<decltype(variant)>(block);
    }
  });
}

}  // namespace tandem::tests
