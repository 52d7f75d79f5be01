#pragma once
// Flash attention as a library sees it: heads at even distances, no mask but the causal one, no dropout.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/device/flash.hpp"
#include "exec/device/ring.hpp"

namespace tandem::exec::device {

/// Elements from one sequence, head and position of an operand to the next. Elements of a head follow each other.
struct AttentionStrides {
  std::int64_t sequence, head, position;
  auto operator<=>(const AttentionStrides&) const = default;
};

/// What a library plans. `groups`: heads of keys and values, each for heads / groups query heads that follow each other.
struct AttentionShape {
  std::int64_t batch, heads, groups, queries, keys, head_dim;
  DType type;
  bool causal;  ///< query i sees keys 0 to i; queries = keys
  AttentionStrides query, key, context;  ///< values lie as keys, gradients as what they are of
  std::int64_t stats_rows;  ///< statistics from one head to the next
  auto operator<=>(const AttentionShape&) const = default;
};

/// `stats`: log-sum-exp of a query's scores in fp32, ordered (sequence, head, position).
struct AttentionOperands {
  std::byte *query, *key, *value, *context, *stats;
  std::byte *dcontext = nullptr, *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
};

/// One call of a library.
struct AttentionCall {
  AttentionShape shape;
  AttentionOperands at;
};

/// Both gradients, which a library makes at once.
struct FlashGradKernels {
  FlashQueryGradKernel query;
  FlashKeyGradKernel key;
  std::byte* room = nullptr;  ///< where they add: ring_room bytes
};

/// Bytes that a library needs for a step of a ring that adds to the earlier ones; 0 where no library does it.
std::int64_t ring_room(const FlashKernel& kernel);
std::int64_t ring_room(const FlashGradKernels& kernels);
/// Behind a library's calls of such a step.
RingMergeKernel merge_of(const FlashKernel& kernel);
std::vector<RingAddKernel> adds_of(const FlashGradKernels& kernels);

/// Why a library cannot do it; empty: it may.
std::string beyond_libraries(const FlashKernel& kernel);
std::string beyond_libraries(const FlashGradKernels& kernels);

/// The calls that do what a kernel that is not beyond libraries does: one, or one a sequence where packed query heads of several groups
/// lie at uneven distances.
std::vector<AttentionCall> calls_of(const FlashKernel& kernel);
std::vector<AttentionCall> calls_of(const FlashGradKernels& kernels);

}  // namespace tandem::exec::device
