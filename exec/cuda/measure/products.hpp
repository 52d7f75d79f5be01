#pragma once
// Times of matrix products.

#include <optional>

#include "exec/cuda/measure/bench.hpp"
#include "exec/cuda/cublaslt.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec::cuda {

/// Runs products with normally distributed operands. The bench's inputs are its own from the first product to the last.
class ProductTimer {
 public:
  ProductTimer(const CublasLt& lt, Bench& bench, std::size_t workspace_bytes);

  /// Seconds of the operation, `busy_s` of load; nullopt where cuBLASLt has no algorithm or memory does not hold it.
  std::optional<double> seconds(const Op& op, DType dtype, double busy_s);
  /// The same after `before_s` of it without a pause.
  std::optional<double> sustained(const Op& op, DType dtype, double before_s, double busy_s);
  /// Host seconds of one call that only enqueues.
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
