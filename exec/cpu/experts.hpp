#pragma once
// Which rows belong to which expert in the grouped operations.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "exec/cpu/call.hpp"

namespace tandem::exec::cpu {

/// body(first row, rows, expert), ascending: groups of `m` rows, or `counts` rows of each (rank they came from, expert).
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

}  // namespace tandem::exec::cpu
