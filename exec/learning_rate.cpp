#include "exec/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

std::int64_t per_step(const LearningRate& schedule, const RunProgress& p) {
  if (schedule.unit == "samples") return p.samples_per_step;
  if (schedule.unit == "tokens") return p.tokens_per_step;
  require(schedule.unit == "steps", "the learning rate's unit is steps, samples or tokens");
  return 1;
}

/// What is left of (peak - minimum) when `x` in [0, 1] of the decay is over.
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
  const auto unit = per_step(schedule, p);
  const auto before = p.step * unit, after = before + unit;
  if (before < schedule.warmup)
    return schedule.peak * std::min(1.0, static_cast<double>(after) / static_cast<double>(schedule.warmup));
  const auto end = schedule.decay_over > 0 ? schedule.decay_over : p.steps * unit;
  const auto length = std::max<std::int64_t>(end - schedule.warmup, 1);
  const double x = std::min(1.0, static_cast<double>(before - schedule.warmup) / static_cast<double>(length));
  return schedule.minimum + (schedule.peak - schedule.minimum) * remaining(schedule, x);
}

}  // namespace tandem::exec
