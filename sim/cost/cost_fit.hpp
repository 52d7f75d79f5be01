#pragma once
// A fitted formula for the time of one kind of operation: a sum of costs that grow with products of its dimensions.

#include <vector>

#include "reports/prediction/cost_table.hpp"

namespace tandem::sim {

/// Dimensions of an operation: the numbers that its cost depends on.
std::vector<double> dimensions(const Op& op);

/// seconds = c0 + c1 m + c2 n + ... + c7 m n k + c8 flops + c9 vector flops + c10 bytes, no coefficient negative. The terms are a
/// call's fixed cost, nested loops, and the rates of large operations, so that it also holds beyond the samples.
class CostFit {
 public:
  /// Fits relative errors by non-negative least squares. Samples are of one kind, form and type; at least one.
  explicit CostFit(const std::vector<CostSample>& samples);
  double seconds(const Op& op, DType dtype) const;

 private:
  std::vector<double> coefficients_;
};

}  // namespace tandem::sim
