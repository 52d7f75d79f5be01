#pragma once
// A block of threads as exec/device's kernels see one, on the device.

#include <cstddef>
#include <cstdint>

#include "exec/device/chunk.hpp"

namespace tandem::exec::cuda {

/// Every thread of a block makes the same calls. Whatever a call has written, all threads see behind it.
class DeviceBlock {
 public:
  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::byte* shared() const {
    extern __shared__ __align__(16) unsigned char room[];
    return reinterpret_cast<std::byte*>(room);
  }
  __device__ void sync() const { __syncthreads(); }

  template <class F>
  __device__ void each(std::int64_t n, F body) const {
    for (std::int64_t i = threadIdx.x; i < n; i += device::kThreads) body(i);
    __syncthreads();
  }
  template <class A, class F>
  __device__ A sum(std::int64_t n, F term) const {
    A mine = A{0};
    for (std::int64_t i = threadIdx.x; i < n; i += device::kThreads) mine = mine + term(i);
    return fold<A, false>(mine);
  }
  template <class A, class F>
  __device__ A max(std::int64_t n, A start, F term) const {
    A mine = start;
    for (std::int64_t i = threadIdx.x; i < n; i += device::kThreads) {
      const A next = term(i);
      mine = next > mine ? next : mine;
    }
    return fold<A, true>(mine);
  }
  template <class F>
  __device__ bool any(std::int64_t n, F test) const {
    int found = 0;
    for (std::int64_t i = threadIdx.x; i < n && found == 0; i += device::kThreads) found = test(i) ? 1 : 0;
    return __syncthreads_or(found) != 0;
  }
  /// In any order.
  __device__ void add(std::int64_t* to, std::int64_t value) const {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  }

 private:
  /// The threads' numbers pairwise, the upper half into the lower one, until one is left.
  template <class A, bool kLargest>
  __device__ A fold(A mine) const {
    __shared__ A lanes[device::kThreads];
    lanes[threadIdx.x] = mine;
    __syncthreads();
    for (int width = device::kThreads / 2; width > 0; width /= 2) {
      if (threadIdx.x < width) {
        const A a = lanes[threadIdx.x], b = lanes[threadIdx.x + width];
        lanes[threadIdx.x] = kLargest ? (b > a ? b : a) : a + b;
      }
      __syncthreads();
    }
    const A result = lanes[0];
    __syncthreads();  // before the next fold writes
    return result;
  }
};

}  // namespace tandem::exec::cuda
