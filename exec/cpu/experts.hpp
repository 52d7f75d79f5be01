#pragma once
// Which rows belong to which expert in the grouped operations.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "exec/cpu/call.hpp"

namespace tandem::exec::cpu {

/// body(first row, rows, expert), ascending: groups of `m` rows, or `counts` rows of each expert.
template <class Op, class F>
void for_each_group(const Op& op, const std::int32_t* counts, F body) {
  if (!op.ragged) {
    for (std::int64_t g = 0; g < op.groups; ++g) body(g * op.m, op.m, g % op.experts);
    return;
  }
  const std::int64_t all = std::accumulate(counts, counts + op.experts, std::int64_t{0});
  require(all == op.m && std::all_of(counts, counts + op.experts, [](std::int32_t n) { return n >= 0; }),
          "the experts' rows are not all the rows there are");
  for (std::int64_t e = 0, row = 0; e < op.experts; row += counts[e++])
    if (counts[e] > 0) body(row, counts[e], e);
}

}  // namespace tandem::exec::cpu
