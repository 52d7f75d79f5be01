#pragma once
// Sums of a matrix's columns as works.

#include <cstdint>
#include <vector>

#include "exec/device/work.hpp"

namespace tandem::exec::device {

/// A row-major matrix, and memory of column_room(rows, cols, 1) bytes.
struct SummedMatrix {
  std::int64_t rows, cols;
  std::byte* room;
};

/// What the blocks of sums leave for each other.
inline Typed partial_sums(DType compute, std::byte* room) { return {room, compute == DType::fp64 ? DType::fp64 : DType::fp32}; }

/// The second stage of sums of one matrix, whose results are still to be named.
ColumnFoldKernel column_fold(DType compute, std::byte* room, std::int64_t slabs, std::int64_t cols);

/// sums[c] = sum over rows of dy[row, c], in a fixed order.
std::vector<Work> column_sums(DType compute, Typed dy, Typed sums, const SummedMatrix& of);

}  // namespace tandem::exec::device
