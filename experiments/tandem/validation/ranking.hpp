#pragma once
// Layouts of one task in order, predicted against measured; and how far repeats of one plan differ.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"

namespace tandem::program {

/// One group: records of a set whose plans differ in nothing but layout. Repeats of a plan are one plan with their mean.
struct LayoutGroup {
  std::vector<std::pair<double, double>> plans;  ///< predicted and measured seconds, two plans or more

  double kendall_tau() const;
  /// Measured time of the plan predicted to be fastest over the fastest measured, less 1; ties of the prediction are averaged.
  double regret() const;
};

struct Ranking {
  int groups = 0, plans = 0;
  std::optional<double> kendall_tau, mean_regret;  ///< means over groups, each one vote
};

/// Repeats of one plan in one set.
struct Noise {
  int plans = 0, records = 0;                      ///< with repeats
  std::optional<double> mean_spread, most_spread;  ///< slowest over fastest repeat, less 1; a mean over plans
};

using RecordList = std::vector<const JudgedRecord*>;

/// Groups of a set's timed records in order of first appearance; groups of one plan are left out.
std::vector<LayoutGroup> layout_groups(const RecordList& records);

Ranking ranking(const std::vector<LayoutGroup>& groups);
Noise noise(const RecordList& records);

}  // namespace tandem::program
