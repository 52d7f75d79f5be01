#pragma once
// Reading and adding to some columns of a matrix, as adapters of queries alone do. Conventions: models/ops/op.hpp.

#include <cstdint>

namespace tandem {

/// Columns [first, first + width) of x[rows, cols].
struct ColumnSlice {
  std::int64_t rows, cols, first, width;
  constexpr std::int64_t elements() const { return rows * width; }
  constexpr std::int64_t whole() const { return rows * cols; }
};
/// in: x; out: y[rows, width]
struct TakeColumns : ColumnSlice {};
/// x += y in these columns. in: y[rows, width], x(inout); out: x
struct AddColumns : ColumnSlice {};

}  // namespace tandem
