#pragma once
// Launches one kernel of exec/device.

#include <cuda_runtime_api.h>

namespace tandem::exec::cuda {

/// Enqueues a kernel. Instantiated for every kernel in works_*.cu. Throws DeviceError.
template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream);

}  // namespace tandem::exec::cuda
