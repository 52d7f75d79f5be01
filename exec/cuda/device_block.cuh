#pragma once
// A block of threads, as exec/device's kernels use it, on the device.

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_team.cuh"
#include "exec/device/chunk.hpp"

namespace tandem::exec::cuda {

/// All threads of a block must make the same calls. After a call, all threads see what it has written.
template <int kBlock>
class DeviceBlock {
 public:
  template <int kTeam>
  using Team = DeviceTeam<kTeam>;
  /// One value per thread.
  template <class V>
  struct Gathered {
    V mine;
  };

  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::byte* shared() const {
    extern __shared__ __align__(16) unsigned char scratch[];
    return reinterpret_cast<std::byte*>(scratch);
  }
  __device__ std::size_t shared_bytes() const {
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
  }
  __device__ void sync() const { __syncthreads(); }

  template <class F>
  __device__ void each(std::int64_t n, F body) const {
#pragma unroll 1  // unrolled copies would cost registers, and so resident threads
    for (std::int64_t i = threadIdx.x; i < n; i += kBlock) body(i);
    __syncthreads();
  }
  template <class A, class F>
  __device__ A sum(std::int64_t n, F term) const {
    A mine = A{0};
#pragma unroll 8
    for (std::int64_t i = threadIdx.x; i < n; i += kBlock) mine = mine + term(i);
    return team().join(mine, [](A a, A b) { return a + b; });
  }
  template <class A, class F>
  __device__ A max(std::int64_t n, A start, F term) const {
    A mine = start;
    for (std::int64_t i = threadIdx.x; i < n; i += kBlock) {
      const A next = term(i);
      mine = next > mine ? next : mine;
    }
    return team().join(mine, [](A a, A b) { return b > a ? b : a; });
  }
  template <class F>
  __device__ bool any(std::int64_t n, F test) const {
    int found = 0;
    for (std::int64_t i = threadIdx.x; i < n && found == 0; i += kBlock) found = test(i) ? 1 : 0;
    return __syncthreads_or(found) != 0;
  }
  /// Adds in any order.
  __device__ void add(std::int64_t* to, std::int64_t value) const {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  }
  /// Takes minima in any order.
  __device__ void least(std::uint32_t* to, std::uint32_t value) const { atomicMin(to, value); }

  /// Calls use(load(i), i) for i in [0, n). A thread loads kBatch values before it uses the first.
  template <int kBatch, class Load, class Use>
  __device__ void stream(std::int64_t n, Load load, Use use) const {
#pragma unroll 1
    for (std::int64_t first = threadIdx.x; first < n; first += kBatch * kBlock) batch<kBatch>(first, n, load, use);
    __syncthreads();
  }
  /// Calls use(value, load(i), i) on each thread's own value, which starts as `start`.
  template <int kBatch, class V, class Load, class Use>
  __device__ Gathered<V> gather(std::int64_t n, V start, Load load, Use use) const {
#pragma unroll 1
    for (std::int64_t first = threadIdx.x; first < n; first += kBatch * kBlock)
      batch<kBatch>(first, n, load, [&](const auto& loaded, std::int64_t i) { use(start, loaded, i); });
    return {start};
  }
  /// Calls use(value, i) on each thread's value, for i in [0, n).
  template <class V, class Use>
  __device__ void gather_more(Gathered<V>& values, std::int64_t n, Use use) const {
#pragma unroll 1
    for (std::int64_t i = threadIdx.x; i < n; i += kBlock) use(values.mine, i);
  }
  template <class V, class Combine>
  __device__ V join(const Gathered<V>& values, Combine combine) const {
    return team().join(values.mine, combine);
  }

  /// Writes the indices of [0, n) that pass `test` to `list`, ascending. Returns their number. `list` has space for n.
  template <class F>
  __device__ std::int64_t select(std::int64_t n, std::int32_t* list, F test) const {
    constexpr int kWarps = kBlock / 32;
    __shared__ int of_warp[kWarps];
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    int found = 0;
    for (std::int64_t first = 0; first < n; first += kBlock) {
      const std::int64_t i = first + threadIdx.x;
      const bool pass = i < n && test(i);
      const unsigned passed = __ballot_sync(0xFFFFFFFFU, pass);
      if (lane == 0) of_warp[warp] = __popc(passed);
      __syncthreads();
      int before = found;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        before += w < warp ? of_warp[w] : 0;
        found += of_warp[w];
      }
      if (pass) list[before + __popc(passed & ((1U << lane) - 1))] = static_cast<std::int32_t>(i);
      __syncthreads();
    }
    return found;
  }

  /// Teams of kTeam threads take items [first, end) in turn: body(team, item).
  template <int kTeam, class F>
  __device__ void teams(std::int64_t first, std::int64_t end, F body) const {
    const Team<kTeam> mine;
#pragma unroll 1
    for (std::int64_t item = first + threadIdx.x / kTeam; item < end; item += kBlock / kTeam) body(mine, item);
    __syncthreads();
  }
  /// As above, with a state per team: body(team, state, item), and at the end done(team, state, team index).
  template <int kTeam, class State, class F, class Done>
  __device__ void teams(std::int64_t first, std::int64_t end, F body, Done done) const {
    const Team<kTeam> mine;
    State state{};
    const int number = static_cast<int>(threadIdx.x) / kTeam;
#pragma unroll 1
    for (std::int64_t item = first + number; item < end; item += kBlock / kTeam) body(mine, state, item);
    done(mine, state, number);
    __syncthreads();
  }

 private:
  __device__ Team<kBlock> team() const { return {}; }

  template <int kBatch, class Load, class Use>
  __device__ void batch(std::int64_t first, std::int64_t n, Load load, Use use) const {
    decltype(load(first)) loaded[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (first + k * kBlock < n) loaded[k] = load(first + k * kBlock);
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (first + k * kBlock < n) use(loaded[k], first + k * kBlock);
  }
};

}  // namespace tandem::exec::cuda
