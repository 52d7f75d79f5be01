#pragma once
// Sums over the rows of a matrix: gradients of biases.

#include <algorithm>
#include <cstdint>

#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {
namespace {

/// sum[c] = sum of x[r, c], rows in ascending order. In every file that uses it by itself: files differ in their vector width.
template <class T>
void write_column_sums(const T* x, std::int64_t rows, std::int64_t cols, T* sum) {
  std::fill_n(sum, cols, T{0});
  for (std::int64_t r = 0; r < rows; ++r, x += cols) each(cols, [=](std::int64_t c) { sum[c] += x[c]; });
}

}  // namespace
}  // namespace tandem::exec::cpu
