#pragma once
// Matrix products as cuBLAS sees them.

#include <cstddef>
#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

/// A matrix of a product, column-major and stored: consecutive columns are `ld` elements apart, consecutive matrices of a batch
/// `stride`.
struct Stored {
  std::int64_t rows, cols, ld, stride = 0;
  bool transposed = false;   ///< the product reads it transposed
  /// Elements from the first to the last, over a batch.
  std::int64_t span(std::int64_t batch) const { return (batch - 1) * stride + (cols - 1) * ld + rows; }
  auto operator<=>(const Stored&) const = default;
};

/// out[rows, cols] = alpha op(first) op(second) (+ out when accumulate) (+ bias over rows), `batch` times. With an activation that is
/// stored beside as x, and out is gelu(x); or out is what it would be times gelu'(x).
struct GemmShape {
  Stored first, second, out;
  std::int64_t batch = 1;
  DType type = DType::bf16;   ///< of the operands and the arithmetic; fp8 is e4m3 with a scale for each tensor
  DType result = DType::bf16; ///< of out (and bias)
  bool accumulate = false, bias = false, sums = false;  ///< sums: of the second operand, over the summed dimension
  const float* scale = nullptr;  ///< fp8: a device number, the scale of both operands
  bool fast_sum = false;      ///< fp8: sums in the tensor core's own, shorter accumulator
  ProductActivation activation = ProductActivation::none;
  auto operator<=>(const GemmShape&) const = default;

  /// Whether its kernel does more than multiply and add up.
  bool does_more() const { return bias || sums || activation != ProductActivation::none; }
  std::int64_t summed() const { return first.transposed ? first.rows : first.cols; }
  std::int64_t flops() const { return 2 * batch * out.rows * out.cols * summed(); }
};

/// One product with its operands. `vector`: the bias, or the sums, where the shape has them. `beside`: the activation's x, stored as out.
struct Product {
  GemmShape shape;
  const std::byte *first, *second;
  std::byte* out;
  std::byte* vector = nullptr;
  double alpha = 1;
  std::byte* beside = nullptr;
  std::byte* room = nullptr;  ///< for sums that a kernel behind it makes: as large as room_bytes says of its operation
  std::int64_t counted = -1;  ///< FLOPs that are asked for, where some of the results are not; -1: all
};

/// Fills with one byte.
struct Clearing {
  std::byte* address;
  std::int64_t bytes;
  std::byte value;
};

}  // namespace tandem::exec::device
