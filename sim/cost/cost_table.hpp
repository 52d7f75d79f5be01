#pragma once
// Interpolates between the samples of a measured cost table.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/prediction/cost_table.hpp"
#include "sim/cost/cost_fit.hpp"

namespace tandem::sim {

/// Samples of one form of one kind of operation in one type: a formula fitted to all of them, and its residual at each.
class CostSurface {
 public:
  /// At least one sample, no two of equal dimensions.
  explicit CostSurface(const std::vector<CostSample>& samples);

  /// Exact at a sample. Between samples the formula times a correction: a local fit of its residuals, linear in the
  /// logarithms of the dimensions and weighted by nearness. Beyond the samples it takes the correction of the nearest border.
  double seconds(const Op& op, DType dtype) const;

 private:
  struct Residual {
    std::vector<double> size;   ///< log2 of the dimensions
    double log_ratio;           ///< log of the sample's seconds over the formula's
  };
  double correction(const std::vector<double>& size) const;

  CostFit fit_;
  std::vector<Residual> residuals_;
  std::vector<double> low_, high_;   ///< range of the sizes
};

/// A table prepared for look-ups. The least of repeated samples counts. If a sample takes longer than a larger operation of the same
/// form, it was disturbed, so the larger operation's time counts.
class MeasuredCosts {
 public:
  explicit MeasuredCosts(const CostTable& table);

  /// Seconds of a computation; nothing if its kind was not measured in `dtype`. A form that was not measured (other flags)
  /// is read as the nearest one that was.
  std::optional<double> seconds(const Op& op, DType dtype) const;
  /// Seconds of a communication in a group of `ranks`; nothing if its kind was not measured. Linear in the logs between sizes
  /// and between group sizes. Constant below the smallest size, at constant bandwidth above the largest. Group sizes outside the
  /// measured ones count as the nearest.
  std::optional<double> communication(const Op& op, std::int64_t ranks) const;
  /// Names of kinds of computation without any sample.
  std::vector<std::string> missing() const;

 private:
  using Form = std::vector<std::int64_t>;    ///< flags, types and kinds that select other code
  using Forms = std::map<Form, CostSurface>;
  using Curve = std::map<double, double>;  ///< log bytes -> log seconds

  void fill_communication(const CostTable& table);

  std::map<std::pair<std::size_t, DType>, Forms> computation_;
  std::map<std::string, std::map<std::int64_t, Curve>, std::less<>> communication_;
};

}  // namespace tandem::sim
