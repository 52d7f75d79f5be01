#pragma once
// Distribution of a sequence over context-parallel ranks. The sequence is cut into 2c equal pieces; rank r of c holds pieces r and
// 2c-1-r. So causal attention is equally much work on every rank.

#include <cstdint>

#include "models/base/error.hpp"

namespace tandem::exec {

/// Positions of a sequence on `context_size` ranks, `local_seq` on each. A single rank holds them in order.
struct SequenceMap {
  std::int64_t context_size = 1, local_seq = 0;

  SequenceMap(std::int64_t ranks, std::int64_t positions) : context_size(ranks), local_seq(positions) {
    require(ranks == 1 || (ranks > 1 && positions % 2 == 0), "every context rank holds two equal pieces of a sequence");
  }

  /// A context rank, and an index among its positions.
  struct Place {
    std::int64_t rank, index;
  };

  constexpr std::int64_t length() const { return context_size * local_seq; }
  /// Number of consecutive local positions that are also consecutive in the sequence.
  constexpr std::int64_t piece() const { return context_size == 1 ? local_seq : local_seq / 2; }

  constexpr std::int64_t position(std::int64_t rank, std::int64_t index) const {
    if (context_size == 1) return index;
    const std::int64_t n = piece();
    return index < n ? rank * n + index : (2 * context_size - 1 - rank) * n + index - n;
  }
  constexpr Place place(std::int64_t position) const {
    if (context_size == 1) return {0, position};
    const std::int64_t n = piece(), number = position / n, within = position % n;
    if (number < context_size) return {number, within};
    return {2 * context_size - 1 - number, n + within};
  }
};

}  // namespace tandem::exec
