#pragma once
// Launches one kernel of exec/device.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tandem::exec::cuda {

/// Most static shared memory of a kernel in bytes, besides the dynamic shared memory of its launch.
inline constexpr std::size_t kMostOwnShared = 2048;

/// Enqueues a kernel. Instantiated for every kernel in works_*.cu. Throws DeviceError.
template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream);

}  // namespace tandem::exec::cuda
