#pragma once
// cuBLASLt, opened at run time, and one planned matrix product.

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
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm;

 private:
  cublasLtHandle_t handle_ = nullptr;
};

using device::GemmShape;
using device::Stored;

/// A product with the first algorithm that cuBLASLt's heuristic names, as PyTorch and Transformer Engine take it, or another one.
class Gemm {
 public:
  using Algorithm = cublasLtMatmulAlgo_t;
  /// What an algorithm is chosen by beside the shape. `alignment`: bytes that divide the address of every matrix, `vector_alignment` of
  /// the bias or the sums; `whole_sums`: of algorithms that cut the summed dimension only such as add the parts up in fp32 before the
  /// rest, in a fixed order.
  struct Choice {
    std::size_t workspace;
    std::uint32_t alignment = 256, vector_alignment = 256;
    bool whole_sums = false;
  };
  /// nullopt where cuBLASLt has no algorithm for it.
  static std::optional<Gemm> make(const CublasLt& lt, const GemmShape& shape, const Choice& choice);
  /// At most `most` that the heuristic names, the one it takes for the fastest first.
  std::vector<Algorithm> algorithms(int most) const;
  /// False, and nothing changes, where cuBLASLt cannot do the product so, or not in the workspace.
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
  /// Enqueues it. `vector`: bias or sums, `beside`: the activation's x, where the shape has them.
  void run(const Operands& o, cudaStream_t s);

 private:
  struct Plan;
  explicit Gemm(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

/// An algorithm as text, for the same version of the library, and back: nullopt where the text is none.
std::string text_of(const Gemm::Algorithm& algorithm);
std::optional<Gemm::Algorithm> algorithm_of(const std::string& text);

}  // namespace tandem::exec::cuda
