#pragma once
// Matrix products of layers as cuBLAS sees them, and back.

#include <optional>

#include "exec/device/product.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec::device {

/// Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T: B comes first. With all that the operation asks for beside.
GemmShape shape_of(const MatMul& op, DType compute, DType result);

/// The operation that has this shape; nothing where it is no product of a layer.
std::optional<MatMul> matmul_of(const GemmShape& shape);

}  // namespace tandem::exec::device
