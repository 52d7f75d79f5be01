#pragma once
// Converts matrix products of layers to cuBLAS's terms and back.

#include <optional>

#include "exec/device/product.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec::device {

/// Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T, so B comes first. Includes bias, sums and activation.
GemmShape shape_of(const MatMul& op, DType compute, DType result);

/// The layer operation with this shape; nullopt if there is none.
std::optional<MatMul> matmul_of(const GemmShape& shape);

}  // namespace tandem::exec::device
