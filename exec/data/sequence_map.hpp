#pragma once
// Where the positions of a sequence lie on the ranks of a context group: of 2c equal pieces of the sequence, context rank r
// of c holds the pieces r and 2c-1-r, so that causal attention is as much work on every rank.

#include <cstdint>

#include "models/base/error.hpp"

namespace tandem::exec {

/// The positions of one sequence on `context_size` ranks, `local_seq` on each. One rank holds them in their order.
struct SequenceMap {
  std::int64_t context_size = 1, local_seq = 0;

  SequenceMap(std::int64_t ranks, std::int64_t positions) : context_size(ranks), local_seq(positions) {
    require(ranks == 1 || (ranks > 1 && positions % 2 == 0), "every context rank holds two equal pieces of a sequence");
  }

  /// A context rank and a local position on it.
  struct Place {
    std::int64_t rank, index;
  };

  constexpr std::int64_t length() const { return context_size * local_seq; }
  /// Positions that follow each other both here and in the sequence.
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
