#pragma once
// The learning rate of a step: the one thing a schedule decides.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem::exec {

/// Where a run stands, converted to the schedule's unit inside.
struct RunProgress {
  std::int64_t step = 0;           ///< 0-based
  std::int64_t steps = 1;          ///< of the run: what decay_over = 0 means, as run_samples
  std::int64_t samples = 0;        ///< consumed before the step
  std::int64_t step_samples = 1;   ///< of this step
  std::int64_t run_samples = 1;
  std::int64_t sample_tokens = 1;
};

/// Learning rate of step `progress.step`. Warm-up ends a step at peak * done / warmup, where done includes the step; then
/// the rate falls from peak to minimum over (warmup, decay_over] by the work done before the step. Throws ContractError
/// for a unit other than steps, samples or tokens.
double learning_rate(const LearningRate& schedule, const RunProgress& progress);

}  // namespace tandem::exec
