#pragma once
// Sums over the rows of a matrix, for bias gradients.

#include <algorithm>
#include <cstdint>

#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

/// sum[c] = sum of x[r, c], rows ascending. Compiled in each file that uses it, because files differ in their vector width.
template <class From, class T>
void write_column_sums(const Call& call, const From* x, std::int64_t rows, std::int64_t cols, T* sum) {
  each_columns(call, rows, cols, [=](std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T{0});
    for (std::int64_t r = 0; r < rows; ++r)
      each(end - first, [=, to = sum + first, from = x + r * cols + first](std::int64_t c) { to[c] += static_cast<T>(from[c]); });
  });
}

}  // namespace
}  // namespace tandem::exec::cpu
