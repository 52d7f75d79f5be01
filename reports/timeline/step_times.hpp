#pragma once
// How long the steps of a run took: their median and their spread.

#include <cstdint>

#include "reports/timeline/run_history.hpp"

namespace tandem {

/// Seconds. `low_s` to `high_s` holds the middle half of the steps; of fewer than eight steps it holds all.
struct StepTimes {
  std::int64_t steps = 0;
  double median_s = 0, low_s = 0, high_s = 0;

  bool has_spread() const { return steps >= 3; }
};

/// Of the steps with the batch of the kept one, without the run's first where there are others: it warms up.
StepTimes step_times(const RunHistory& history);

}  // namespace tandem
