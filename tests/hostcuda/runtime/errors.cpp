#include "tests/hostcuda/runtime/errors.hpp"

#include <atomic>
#include <cstdio>

#include "tests/hostcuda/runtime/issue.hpp"

namespace tandem::hostcuda {
namespace {

std::atomic<bool>& fault() {
  static std::atomic<bool> happened = false;
  return happened;
}

thread_local cudaError_t last = cudaSuccess;

}  // namespace

bool failed() { return fault().load(std::memory_order_relaxed); }

void fail(const char* cause) {
  if (!fault().exchange(true)) std::fprintf(stderr, "host CUDA runtime: a fault of the device: %s\n", cause);
}

cudaError_t noted(cudaError_t code) {
  if (failed()) return cudaErrorLaunchFailure;
  if (code != cudaSuccess && code != cudaErrorNotReady) last = code;
  return code;
}

cudaError_t last_error(bool clears) {
  if (failed()) return cudaErrorLaunchFailure;
  const cudaError_t code = last;
  if (clears) last = cudaSuccess;
  return code;
}

}  // namespace tandem::hostcuda
