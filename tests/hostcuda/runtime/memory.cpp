// Memory and copies of CUDA's runtime.
#include <cstring>

#include "tests/hostcuda/runtime/errors.hpp"
#include "tests/hostcuda/runtime/heap.hpp"
#include "tests/hostcuda/runtime/issue.hpp"
#include "tests/hostcuda/runtime/objects.hpp"
#include "tests/hostcuda/runtime/settings.hpp"

namespace tandem::hostcuda {
namespace {

cudaError_t allocate(Kind kind, void** data, std::size_t bytes) {
  if (data == nullptr) return cudaErrorInvalidValue;
  *data = nullptr;
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (bytes == 0) return cudaSuccess;
  if (failed()) return cudaErrorLaunchFailure;
  *data = take(kind, bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

/// As a device's driver, waits for all work before memory goes: freed memory is not in use, but the caller may wait for long.
cudaError_t release(Kind kind, void* data, const char* call) {
  if (data == nullptr) return cudaSuccess;
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  wait_for_device(call);
  switch (give_back(kind, data)) {
    case Given::back: return cudaSuccess;
    case Given::unknown: return cudaErrorInvalidValue;
    case Given::damaged: fail("bytes beside a block of memory were written");
  }
  return cudaErrorLaunchFailure;
}

/// Host memory that is not pinned may be any; the device's must be one block, and never the host's side of a copy.
bool may_copy(const void* data, std::size_t bytes, bool device) {
  return device ? inside(Kind::device, data, bytes) : !of_device(data);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice)
    return cudaErrorInvalidMemcpyDirection;
  if (!may_copy(to, bytes, kind != cudaMemcpyDeviceToHost) || !may_copy(from, bytes, kind != cudaMemcpyHostToDevice))
    return cudaErrorInvalidValue;
  return issue(stream, [=] { std::memmove(to, from, bytes); });
}

cudaError_t set(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!inside(Kind::device, to, bytes)) return cudaErrorInvalidValue;
  return issue(stream, [=] { std::memset(to, value, bytes); });
}

}  // namespace

bool on_device(const void* data, std::size_t bytes) { return inside(Kind::device, data, bytes); }

}  // namespace tandem::hostcuda

using namespace tandem::hostcuda;

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) { return noted(allocate(Kind::device, data, bytes)); }
cudaError_t cudaMallocHost(void** data, std::size_t bytes) { return noted(allocate(Kind::pinned, data, bytes)); }
cudaError_t cudaFree(void* data) { return noted(release(Kind::device, data, "cudaFree")); }
cudaError_t cudaFreeHost(void* data) { return noted(release(Kind::pinned, data, "cudaFreeHost")); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *all = settings().memory;
  *free = *all - taken_bytes(Kind::device);
  return noted(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return noted(copy(to, from, bytes, kind, stream));
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return noted(set(to, value, bytes, stream));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (breaks_capture()) return noted(cudaErrorStreamCaptureImplicit);
  const cudaError_t code = copy(to, from, bytes, kind, cudaStreamLegacy);
  return code == cudaSuccess ? cudaStreamSynchronize(cudaStreamLegacy) : noted(code);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return breaks_capture() ? noted(cudaErrorStreamCaptureImplicit) : noted(set(to, value, bytes, cudaStreamLegacy));
}

}  // extern "C"
