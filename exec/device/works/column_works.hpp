#pragma once
// Works for the column sums of a matrix.

#include <cstdint>
#include <vector>

#include "exec/device/works/work.hpp"

namespace tandem::exec::device {

/// A row-major matrix, and scratch memory of column_scratch(rows, cols, 1) bytes.
struct SummedMatrix {
  std::int64_t rows, cols;
  std::byte* scratch;
};

/// The partial sums that blocks of the first stage leave for the second.
inline Typed partial_sums(DType compute, std::byte* scratch) {
  return {scratch, compute == DType::fp64 ? DType::fp64 : DType::fp32};
}

/// Second stage of the sums of one matrix; the caller fills in the results.
ColumnFoldKernel column_fold(DType compute, std::byte* scratch, std::int64_t slabs, std::int64_t cols);

/// sums[c] = sum over rows of dy[row, c], in a fixed order.
std::vector<Work> column_sums(DType compute, Typed dy, Typed sums, const SummedMatrix& of);

}  // namespace tandem::exec::device
