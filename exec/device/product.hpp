#pragma once
// Matrix products in cuBLAS's terms.

#include <cstddef>
#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

/// A stored column-major matrix. Consecutive columns are `ld`
/// elements apart, consecutive matrices of a batch `stride`.
struct Stored {
  std::int64_t rows, cols, ld, stride = 0;
  bool transposed = false;   ///< the product reads it transposed
  /// Number of elements from the first to the last one of a batch.
  std::int64_t span(std::int64_t batch) const { return (batch - 1) * stride + (cols - 1) * ld + rows; }
  auto operator<=>(const Stored&) const = default;
};

/// out[rows, cols] = alpha op(first) op(second) (+ out if accumulate) (+ bias over rows), `batch` times. gelu: out = gelu(x), and x
/// is also stored. gelu_gradient: out is multiplied by gelu'(x).
struct GemmShape {
  Stored first, second, out;
  std::int64_t batch = 1;
  DType type = DType::bf16;   ///< operands and arithmetic; fp8 is e4m3 with a scale per tensor
  DType result = DType::bf16; ///< of out and the bias
  bool accumulate = false, bias = false, sums = false;  ///< sums: of the second operand, over the inner dimension
  const float* scale = nullptr;  ///< fp8: scale of both operands, in device memory
  bool fast_sum = false;      ///< fp8: sum in the tensor cores' less precise accumulator
  ProductActivation activation = ProductActivation::none;
  auto operator<=>(const GemmShape&) const = default;

  /// True if its kernel does more than multiply and accumulate.
  bool does_more() const { return bias || sums || activation != ProductActivation::none; }
  std::int64_t summed() const { return first.transposed ? first.rows : first.cols; }
  std::int64_t flops() const { return 2 * batch * out.rows * out.cols * summed(); }
};

/// A product and its operands. `vector`: bias or sums. `beside`: the activation's x, stored in out's type. Null if unused.
struct Product {
  GemmShape shape;
  const std::byte *first, *second;
  std::byte* out;
  std::byte* vector = nullptr;
  double alpha = 1;
  std::byte* beside = nullptr;
  std::byte* scratch = nullptr;  ///< scratch memory for column sums, of scratch_bytes bytes
  std::int64_t counted = -1;  ///< FLOPs to count if some results are not needed; -1: all
};

/// Fills memory with one byte value.
struct Clearing {
  std::byte* address;
  std::int64_t bytes;
  std::byte value;
};

}  // namespace tandem::exec::device
