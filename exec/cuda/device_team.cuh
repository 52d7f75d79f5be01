#pragma once
// A team of threads of a block that work on one item together, on the device.

#include <cstdint>
#include <cstring>

#include "exec/device/rows.hpp"

namespace tandem::exec::cuda {

template <class V>
__device__ inline V from_lane(const V& value, int distance, unsigned mask) {
  static_assert(sizeof(V) % sizeof(std::uint32_t) == 0);
  std::uint32_t words[sizeof(V) / sizeof(std::uint32_t)];
  std::memcpy(words, &value, sizeof(V));
#pragma unroll
  for (std::uint32_t& w : words) w = __shfl_xor_sync(mask, w, distance);
  V other;
  std::memcpy(&other, words, sizeof(V));
  return other;
}

/// A team: several warps or part of one. All its threads must make the same calls.
template <int kTeam>
class DeviceTeam {
 public:
  /// K values per thread.
  template <class V, int K>
  class Held {
   public:
    __device__ V& operator[](device::Slot at) { return v_[at.k]; }
    __device__ const V& operator[](device::Slot at) const { return v_[at.k]; }

   private:
    V v_[K];
  };

  /// Calls body(slot) for slots [0, n), at most K per thread.
  template <int K, class F>
  __device__ void each(std::int64_t n, F body) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (const int i = lane() + k * kTeam; i < n) body(device::Slot{k, i});
  }
  /// The sum of term(slot) over slots [0, n): per thread first, then join().
  template <class V, int K, class F>
  __device__ V sum(std::int64_t n, V start, F term) const {
    each<K>(n, [&](device::Slot at) { start = start + term(at); });
    return join(start, [](const V& a, const V& b) { return a + b; });
  }
  /// Combines the threads' values in pairs, halving each warp until one value is left, then the warps' values likewise.
  template <class V, class Combine>
  __device__ V join(V mine, Combine combine) const {
    constexpr int kLanes = kTeam < 32 ? kTeam : 32, kWarps = kTeam / kLanes;
    const unsigned all = kLanes == 32 ? 0xFFFFFFFFU : ((1U << kLanes % 32) - 1) << (threadIdx.x % 32 / kLanes * kLanes);
#pragma unroll
    for (int d = kLanes / 2; d > 0; d /= 2) mine = combine(mine, from_lane(mine, d, all));
    if constexpr (kWarps > 1) {
      __shared__ V of_warp[kWarps];
      __syncthreads();  // wait until the previous values have been read
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
      __syncthreads();
      mine = of_warp[threadIdx.x % kWarps];
#pragma unroll
      for (int d = kWarps / 2; d > 0; d /= 2) mine = combine(mine, from_lane(mine, d, 0xFFFFFFFFU));
    }
    return mine;
  }
  /// One thread calls once().
  template <class F>
  __device__ void one(F once) const {
    if (lane() == 0) once();
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kTeam; }
};

}  // namespace tandem::exec::cuda
