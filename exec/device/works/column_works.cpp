#include "exec/device/works/column_works.hpp"

#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {

ColumnFoldKernel column_fold(DType compute, std::byte* scratch, std::int64_t slabs, std::int64_t cols) {
  return {compute == DType::fp64 ? Form::doubles : Form::floats, partial_sums(compute, scratch), {}, {}, slabs, 1, cols};
}

std::vector<Work> column_sums(DType compute, Typed dy, Typed sums, const SummedMatrix& of) {
  ColumnFoldKernel last = column_fold(compute, of.scratch, column_slabs(of.rows, of.cols).count, of.cols);
  last.first = sums;
  return {ColumnSumsKernel{form_of(compute, {dy}), dy, {}, {}, partial_sums(compute, of.scratch), of.rows, of.cols}, last};
}

}  // namespace tandem::exec::device
