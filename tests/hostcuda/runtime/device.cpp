// The device of CUDA's runtime: what it says of itself, and the texts of its errors.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hostcuda/runtime/errors.hpp"
#include "tests/hostcuda/runtime/settings.hpp"

using namespace tandem::hostcuda;

namespace {

constexpr int kShared = 227 << 10;  // bytes of shared memory that a block of a Hopper can ask for
constexpr int kMajor = 9;

/// A kernel that was compiled for a device has come into the program: the twins do not cover it.
[[noreturn]] void refuse_kernels() {
  std::fprintf(stderr, "host CUDA runtime: a kernel for a device is linked; tests/hostcuda must have its twin\n");
  std::abort();
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, noted(cudaSuccess); }

cudaError_t cudaSetDevice(int device) { return noted(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "host CUDA runtime for tests");
  p->major = kMajor;
  p->multiProcessorCount = 132;
  p->totalGlobalMem = settings().memory;
  p->l2CacheSize = 50 << 20;
  return noted(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr key, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  switch (key) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kShared; break;
    case cudaDevAttrClockRate: *value = 1'980'000; break;
    case cudaDevAttrMemoryClockRate: *value = 2'619'000; break;
    default: return noted(cudaErrorInvalidValue);
  }
  return noted(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:00:00.0");
  return noted(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, noted(cudaSuccess); }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, noted(cudaSuccess); }

cudaError_t cudaGetLastError() { return last_error(true); }
cudaError_t cudaPeekAtLastError() { return last_error(false); }

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched: return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit: return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorStreamCaptureWrongThread: return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    default: return "an error without a text";
  }
}

void** __cudaRegisterFatBinary(void*) { refuse_kernels(); }

}  // extern "C"
