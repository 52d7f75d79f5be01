#pragma once
// What kernels and libraries for tests need of the host's CUDA runtime.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace tandem::hostcuda {

/// Enqueues work on a stream, or records it if the stream is captured. An exception of the work is a fault of the device.
cudaError_t issue(cudaStream_t stream, std::function<void()> work);

/// True if the bytes lie in one block of device memory.
bool on_device(const void* data, std::size_t bytes);

/// Marks the device as failed: all later calls return an error that stays. Prints the cause.
void fail(const char* cause);

}  // namespace tandem::hostcuda
