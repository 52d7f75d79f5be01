#pragma once
// The rows of each expert in grouped operations.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {

/// Calls body(first row, rows, expert), ascending: groups of `m` rows, or, if ragged, counts[i] rows per (source rank, expert).
template <class Op, class F>
void for_each_group(const Op& op, const std::int32_t* counts, F body) {
  if (!op.ragged) {
    for (std::int64_t g = 0; g < op.groups; ++g) body(g * op.m, op.m, g % op.experts);
    return;
  }
  const std::int64_t n = op.groups * op.experts, all = std::accumulate(counts, counts + n, std::int64_t{0});
  require((op.groups > 1 || all == op.m) && std::all_of(counts, counts + n, [](std::int32_t c) { return c >= 0; }),
          "the experts' rows are not all the rows there are");
  for (std::int64_t i = 0, row = 0; i < n; row += counts[i++])
    if (counts[i] > 0) body(row, counts[i], i % op.experts);
}

/// As above; if there are enough experts, threads share them, with an expert's groups in order on one thread. Otherwise the calling
/// thread processes all groups.
template <class Op, class F>
void share_groups(const Op& op, const std::int32_t* counts, const Call& call, F body) {
  if (op.experts < call.team().threads()) return for_each_group(op, counts, body);
  call.team().split(op.experts, 1, [&](std::int64_t first, std::int64_t end) {
    for_each_group(op, counts, [&](std::int64_t row, std::int64_t rows, std::int64_t expert) {
      if (first <= expert && expert < end) body(row, rows, expert);
    });
  });
}

}  // namespace tandem::exec::cpu
