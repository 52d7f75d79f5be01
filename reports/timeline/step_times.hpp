#pragma once
// Step times of a run: their median and spread.

#include <cstdint>
#include <vector>

#include "reports/timeline/run_history.hpp"

namespace tandem {

/// Seconds. `low_s` to `high_s` holds the middle half of the steps, or all if there are fewer than eight.
struct StepTimes {
  std::int64_t steps = 0;
  double median_s = 0, low_s = 0, high_s = 0;

  bool has_spread() const { return steps >= 3; }
};

/// Median and spread of some steps, in seconds; all 0 without any.
StepTimes spread_of(std::vector<double> times);

/// Times of the steps with the kept step's batch. The run's first step is left out if there are others: it warms up.
StepTimes step_times(const RunHistory& history);

}  // namespace tandem
