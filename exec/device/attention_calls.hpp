#pragma once
// Flash attention as libraries offer it: heads at constant strides, no mask but the causal one, no dropout.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/device/flash.hpp"
#include "exec/device/ring.hpp"

namespace tandem::exec::device {

/// Strides in elements between sequences, heads and positions of an operand. A head's elements are contiguous.
struct AttentionStrides {
  std::int64_t sequence, head, position;
  auto operator<=>(const AttentionStrides&) const = default;
};

/// The shape by which a library plans. `groups`: number of key/value heads; heads / groups consecutive query heads share one.
struct AttentionShape {
  std::int64_t batch, heads, groups, queries, keys, head_dim;
  DType type;
  bool causal;  ///< query i sees keys 0 to i; requires queries == keys
  AttentionStrides query, key, context;  ///< values have the keys' strides, gradients those of their tensors
  std::int64_t stats_rows;  ///< statistics per head
  double scale;             ///< of scores
  std::int64_t stats_alignment = 16;  ///< bytes that divide the address of the statistics, at most 16
  auto operator<=>(const AttentionShape&) const = default;
};

/// `stats`: log-sum-exp of each query's scores in fp32, ordered (sequence, head, position).
struct AttentionOperands {
  std::byte *query, *key, *value, *context, *stats;
  std::byte *dcontext = nullptr, *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
};

/// One call of a library.
struct AttentionCall {
  AttentionShape shape;
  AttentionOperands at;
};

/// The kernels of both gradients, which a library computes in one call.
struct FlashGradKernels {
  FlashQueryGradKernel query;
  FlashKeyGradKernel key;
  std::byte* scratch = nullptr;  ///< ring_scratch bytes of scratch memory for a ring step
};

/// Scratch bytes that a library needs for a ring-attention step that adds to earlier steps; 0 if no library can do it.
std::int64_t ring_scratch(const FlashKernel& kernel);
std::int64_t ring_scratch(const FlashGradKernels& kernels);
/// Kernels that combine a library's ring step with the earlier steps.
RingMergeKernel merge_of(const FlashKernel& kernel);
std::vector<RingAddKernel> adds_of(const FlashGradKernels& kernels);

/// The reason why no library can do it; empty: perhaps one can.
std::string beyond_libraries(const FlashKernel& kernel);
std::string beyond_libraries(const FlashGradKernels& kernels);

/// The library calls that replace a kernel, if beyond_libraries() is empty. One call, or one per sequence if packed query heads of
/// several groups have no constant stride.
std::vector<AttentionCall> calls_of(const FlashKernel& kernel);
std::vector<AttentionCall> calls_of(const FlashGradKernels& kernels);

}  // namespace tandem::exec::device
