#pragma once
// How well the order of a task's layouts is predicted, and how much repeats of a plan differ.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"

namespace tandem::program {

/// Records of a set whose plans differ only in layout. Repeats of a plan are averaged to one plan.
struct LayoutGroup {
  std::vector<std::pair<double, double>> plans;  ///< predicted and measured seconds, two plans or more

  double kendall_tau() const;
  /// Measured time of the plan predicted fastest, divided by the fastest measured time, minus 1. Predicted ties are averaged.
  double regret() const;
};

struct Ranking {
  int groups = 0, plans = 0;
  std::optional<double> kendall_tau, mean_regret;  ///< means over groups with equal weights
};

/// How much repeats of a plan in a set differ.
struct Noise {
  int plans = 0, records = 0;                      ///< with repeats
  std::optional<double> mean_spread, most_spread;  ///< slowest / fastest repeat - 1; mean over plans, and largest
};

using RecordList = std::vector<const JudgedRecord*>;

/// Groups of a set's timed records, in order of first appearance. Groups with a single plan are omitted.
std::vector<LayoutGroup> layout_groups(const RecordList& records);

Ranking ranking(const std::vector<LayoutGroup>& groups);
Noise noise(const RecordList& records);

}  // namespace tandem::program
