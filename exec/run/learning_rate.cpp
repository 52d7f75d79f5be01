#include "exec/run/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// Work done before the step, after it, and in the whole run, in the schedule's unit.
struct Work {
  std::int64_t before, after, run;
};

Work work(const LearningRate& schedule, const RunProgress& p) {
  if (schedule.unit == "steps") return {p.step, p.step + 1, p.steps};
  require(schedule.unit == "samples" || schedule.unit == "tokens",
          "the learning rate's unit is steps, samples or tokens");
  if (schedule.unit == "samples") return {p.samples, p.samples + p.step_samples, p.run_samples};
  const auto tokens = [&](std::int64_t samples) { return samples * p.sample_tokens + p.other_tokens; };
  return {tokens(p.samples), tokens(p.samples + p.step_samples), tokens(p.run_samples)};
}

/// The remaining fraction of (peak - minimum) after the fraction `x` in [0, 1] of the decay.
double remaining(const LearningRate& schedule, double x) {
  switch (schedule.decay) {
    case DecayShape::constant: return 1;
    case DecayShape::linear: return 1 - x;
    case DecayShape::cosine: return 0.5 * (1 + std::cos(std::numbers::pi * x));
    case DecayShape::polynomial: return std::pow(1 - x, schedule.power);
  }
  return 1;
}

}  // namespace

double learning_rate(const LearningRate& schedule, const RunProgress& p) {
  const auto [before, after, run] = work(schedule, p);
  if (before < schedule.warmup)
    return schedule.peak * std::min(1.0, static_cast<double>(after) / static_cast<double>(schedule.warmup));
  const auto end = schedule.decay_over > 0 ? schedule.decay_over : run;
  const auto start = std::max(schedule.warmup, schedule.decay_start);
  const auto length = std::max<std::int64_t>(end - start, 1);
  const double x = std::clamp(static_cast<double>(before - start) / static_cast<double>(length), 0.0, 1.0);
  return schedule.minimum + (schedule.peak - schedule.minimum) * remaining(schedule, x);
}

}  // namespace tandem::exec
