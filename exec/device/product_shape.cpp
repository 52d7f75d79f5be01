#include "exec/device/product_shape.hpp"

namespace tandem::exec::device {
namespace {

/// A row-major matrix [rows, cols] in cuBLAS's column-major terms.
Stored stored(std::int64_t rows, std::int64_t cols, bool transposed) { return {cols, rows, cols, 0, transposed}; }

}  // namespace

GemmShape shape_of(const MatMul& op, DType compute, DType result) {
  GemmShape shape;
  shape.first = op.trans_b ? stored(op.n, op.k, true) : stored(op.k, op.n, false);
  shape.second = op.trans_a ? stored(op.k, op.m, true) : stored(op.m, op.k, false);
  shape.out = stored(op.m, op.n, false);
  shape.type = compute;
  shape.result = result;
  shape.accumulate = op.accumulate;
  shape.bias = op.bias;
  shape.sums = op.sums;
  shape.activation = op.activation;
  return shape;
}

std::optional<MatMul> matmul_of(const GemmShape& shape) {
  MatMul op{shape.out.cols, shape.out.rows, shape.summed(), shape.second.transposed, shape.first.transposed};
  op.bias = shape.bias;
  op.accumulate = shape.accumulate;
  if (shape.accumulate) op.total = shape.result;
  op.sums = shape.sums;
  op.activation = shape.activation;
  return shape_of(op, shape.type, shape.result) == shape ? std::optional(op) : std::nullopt;
}

}  // namespace tandem::exec::device
