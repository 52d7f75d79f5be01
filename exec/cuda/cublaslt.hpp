#pragma once
// cuBLASLt, opened at run time, and one planned matrix product.

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/cuda/library.hpp"
#include "exec/cuda/resources.hpp"
#include "models/base/dtype.hpp"

namespace tandem::exec::cuda {

/// The functions that are used, and a handle. Throws DeviceError when the library is not there.
class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  std::string version() const;
  cublasLtHandle_t handle() const { return handle_; }

 private:
  Library library_;

 public:
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;

 private:
  cublasLtHandle_t handle_ = nullptr;
};

/// A matrix of a product as cuBLAS sees it, column-major and stored: consecutive columns are `ld` elements apart, consecutive
/// matrices of a batch `stride`.
struct Stored {
  std::int64_t rows, cols, ld, stride = 0;
  bool transposed = false;   ///< the product reads it transposed
  /// Elements from the first to the last, over a batch.
  std::int64_t span(std::int64_t batch) const { return (batch - 1) * stride + (cols - 1) * ld + rows; }
};

/// out[rows, cols] = op(first) op(second) (+ out when accumulate) (+ bias over rows), `batch` times.
struct GemmShape {
  Stored first, second, out;
  std::int64_t batch = 1;
  DType type = DType::bf16;   ///< of the operands and the arithmetic; fp8 is e4m3 with a scale for each tensor
  DType result = DType::bf16; ///< of out (and bias)
  bool accumulate = false, bias = false, sums = false;  ///< sums: of the second operand, over the summed dimension
  const float* scale = nullptr;  ///< fp8: a device number, the scale of both operands
  bool fast_sum = false;      ///< fp8: sums in the tensor core's own, shorter accumulator
};

/// A product with the first algorithm that cuBLASLt's heuristic names, as PyTorch and Transformer Engine take it.
class Gemm {
 public:
  /// nullopt where cuBLASLt has no algorithm for it.
  static std::optional<Gemm> make(const CublasLt& lt, const GemmShape& shape, std::size_t workspace);
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  ~Gemm();
  struct Operands { const void *first, *second; void* out; void* vector; void* workspace; std::size_t workspace_bytes; };
  /// Enqueues it. `vector`: bias or sums, where the shape has them.
  void run(const Operands& o, cudaStream_t s);

 private:
  struct Plan;
  explicit Gemm(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

}  // namespace tandem::exec::cuda
