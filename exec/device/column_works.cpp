#include "exec/device/column_works.hpp"

#include "exec/device/operands.hpp"

namespace tandem::exec::device {

ColumnFoldKernel column_fold(DType compute, std::byte* room, std::int64_t slabs, std::int64_t cols) {
  return {compute == DType::fp64 ? Form::doubles : Form::floats, partial_sums(compute, room), {}, {}, slabs, 1, cols};
}

std::vector<Work> column_sums(DType compute, Typed dy, Typed sums, const SummedMatrix& of) {
  ColumnFoldKernel last = column_fold(compute, of.room, column_slabs(of.rows, of.cols).count, of.cols);
  last.first = sums;
  return {ColumnSumsKernel{form_of(compute, {dy}), dy, {}, {}, partial_sums(compute, of.room), of.rows, of.cols}, last};
}

}  // namespace tandem::exec::device
