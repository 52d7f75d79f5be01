#pragma once
// Times matrix products.

#include <optional>

#include "exec/cuda/measure/bench.hpp"
#include "exec/cuda/cublaslt.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec::cuda {

/// Times products with normally distributed operands. Until the last one, nothing else may use the bench's input pool.
class ProductTimer {
 public:
  ProductTimer(const CublasLt& lt, Bench& bench, std::size_t workspace_bytes);

  /// Seconds of the operation under `busy_s` seconds of load; nullopt if cuBLASLt has no algorithm or memory is too small.
  std::optional<double> seconds(const Op& op, DType dtype, double busy_s);
  /// seconds() after `before_s` seconds of uninterrupted load.
  std::optional<double> sustained(const Op& op, DType dtype, double before_s, double busy_s);
  /// Host seconds of one call, which only enqueues.
  double host_seconds();

 private:
  struct Call { Gemm gemm; GemmShape shape; };
  std::optional<std::vector<Call>> prepare(const Op& op, DType dtype);
  bool fits(const GemmShape& g) const;
  void run(std::vector<Call>& calls);
  void fill(DType dtype);

  const CublasLt& lt_;
  Bench& bench_;
  Buffer workspace_, vector_, one_;
  std::optional<DType> filled_;
};

}  // namespace tandem::exec::cuda
