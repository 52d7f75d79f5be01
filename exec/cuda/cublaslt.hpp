#pragma once
// cuBLASLt, opened at run time, and a planned matrix product.

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/library.hpp"
#include "exec/cuda/resources.hpp"
#include "exec/device/product.hpp"
#include "models/base/dtype.hpp"

namespace tandem::exec::cuda {

/// The library's functions and a handle. Throws DeviceError if the library is not found.
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
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm;

 private:
  cublasLtHandle_t handle_ = nullptr;
};

using device::GemmShape;
using device::Stored;

/// A planned matrix product. It uses the heuristic's first algorithm, as PyTorch and Transformer Engine do, or one set by use().
class Gemm {
 public:
  using Algorithm = cublasLtMatmulAlgo_t;
  /// Inputs of the choice of an algorithm besides the shape. `alignment`: bytes that divide every matrix's address; `vector_alignment`: the
  /// same for the bias or the sums. `whole_sums`: allow only algorithms that sum parts of the inner dimension in fp32, in a fixed
  /// order.
  struct Choice {
    std::size_t workspace;
    std::uint32_t alignment = 256, vector_alignment = 256;
    bool whole_sums = false;
  };
  /// Returns nullopt if cuBLASLt has no algorithm for the product.
  static std::optional<Gemm> make(const CublasLt& lt, const GemmShape& shape, const Choice& choice);
  /// At most `most` algorithms of the heuristic, the presumably fastest first.
  std::vector<Algorithm> algorithms(int most) const;
  /// Returns false, changing nothing, if cuBLASLt cannot use this algorithm or the workspace is too small.
  bool use(const Algorithm& algorithm);
  const Algorithm& algorithm() const;
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  ~Gemm();
  struct Operands {
    const void *first, *second;
    void *out, *vector, *workspace;
    std::size_t workspace_bytes;
    double alpha = 1;
    void* beside = nullptr;
  };
  /// Enqueues the product. `vector`: bias or sums, `beside`: the activation's input x, if the shape has them.
  void run(const Operands& o, cudaStream_t s);

 private:
  struct Plan;
  explicit Gemm(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

/// An algorithm as text, and back. Only valid for the same library version. nullopt if the text is no algorithm.
std::string text_of(const Gemm::Algorithm& algorithm);
std::optional<Gemm::Algorithm> algorithm_of(const std::string& text);

}  // namespace tandem::exec::cuda
