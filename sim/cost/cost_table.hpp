#pragma once
// Reads between the samples of a measured cost table.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/prediction/cost_table.hpp"
#include "sim/cost/cost_law.hpp"

namespace tandem::sim {

/// Samples of one form of one kind in one type: a law fitted to them all, and what it misses at each of them.
class CostSurface {
 public:
  /// At least one sample, no two of equal dimensions.
  explicit CostSurface(const std::vector<CostSample>& samples);

  /// Exact at a sample. Between samples the law, corrected by a local fit of what it misses (linear in the logarithms of the
  /// dimensions, weighted by nearness); beyond them the law with the correction of the nearest border.
  double seconds(const Op& op, DType dtype) const;

 private:
  struct Miss {
    std::vector<double> size;   ///< log2 of the dimensions
    double log_ratio;           ///< of the sample to the law
  };
  double correction(const std::vector<double>& size) const;

  CostLaw law_;
  std::vector<Miss> misses_;
  std::vector<double> low_, high_;   ///< of the sizes
};

/// A table prepared for reading. Of repeated samples the least counts, and a sample that costs more than a larger operation of
/// its form is taken to be disturbed: it counts as that one.
class MeasuredCosts {
 public:
  explicit MeasuredCosts(const CostTable& table);

  /// Seconds of a computation; nothing when its kind was not measured in `dtype`. A form that was not measured (other flags)
  /// is read as the nearest one that was.
  std::optional<double> seconds(const Op& op, DType dtype) const;
  /// Seconds of a communication in a group of `ranks`; nothing when its kind was not measured. Between sizes and group
  /// sizes linear in the logs; below the smallest size constant, above the largest at constant bandwidth; group sizes
  /// outside the measured ones as the nearest.
  std::optional<double> communication(const Op& op, std::int64_t ranks) const;
  /// Kinds of computation that have no sample at all.
  std::vector<std::string> missing() const;

 private:
  using Form = std::vector<std::int64_t>;    ///< flags, types, kinds: what picks other code
  using Forms = std::map<Form, CostSurface>;
  using Curve = std::map<double, double>;  ///< log bytes -> log seconds

  void fill_communication(const CostTable& table);

  std::map<std::pair<std::size_t, DType>, Forms> computation_;
  std::map<std::string, std::map<std::int64_t, Curve>, std::less<>> communication_;
};

}  // namespace tandem::sim
