#pragma once
// The codes that calls return: the last of each thread, and the device's fault, which stays.

#include <cuda_runtime_api.h>

namespace tandem::hostcuda {

/// True after a fault of the device.
bool failed();
/// Notes a code as the thread's last error, and returns it; a fault of the device goes before it.
cudaError_t noted(cudaError_t code);
/// The thread's last error, or the device's fault. `clears`: forgets the former.
cudaError_t last_error(bool clears);

}  // namespace tandem::hostcuda
