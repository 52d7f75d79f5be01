#include "reports/timeline/step_times.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {

namespace {

constexpr std::size_t kQuartered = 8;  ///< steps from which on a quarter of them may be left out at either end

std::int64_t kept_batch(const RunHistory& history) {
  for (const TrainedStep& s : history.steps)
    if (s.step == history.kept_step) return s.global_batch_size;
  return history.steps.empty() ? 0 : history.steps.back().global_batch_size;
}

/// The times that count.
std::vector<double> counted(const RunHistory& history) {
  const std::int64_t batch = kept_batch(history);
  std::vector<double> times, first;
  for (std::size_t i = 0; i < history.steps.size(); ++i)
    if (const TrainedStep& s = history.steps[i]; s.global_batch_size == batch && std::isfinite(s.step_time_s))
      (i == 0 ? first : times).push_back(s.step_time_s);
  if (times.empty()) times = first;
  return times;
}

}  // namespace

StepTimes spread_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  if (n == 0) return {};
  const std::size_t left_out = n < kQuartered ? 0 : n / 4;
  return {static_cast<std::int64_t>(n), (times[(n - 1) / 2] + times[n / 2]) / 2, times[left_out], times[n - 1 - left_out]};
}

StepTimes step_times(const RunHistory& history) { return spread_of(counted(history)); }

}  // namespace tandem
