#pragma once
// The learning rate of a step.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem::exec {

/// The position in a run. learning_rate() converts it to the schedule's unit.
struct RunProgress {
  std::int64_t step = 0;           ///< 0-based
  std::int64_t steps = 1;          ///< of the whole run; the decay length if decay_over = 0 and the unit is steps
  std::int64_t samples = 0;        ///< consumed before the step
  std::int64_t step_samples = 1;   ///< of this step
  std::int64_t run_samples = 1;
  std::int64_t sample_tokens = 1;
  std::int64_t other_tokens = 0;   ///< tokens that earlier sequences had beyond `sample_tokens` each; below 0 if they were shorter
};

/// Learning rate of step `progress.step`. During warm-up it is peak * done / warmup, where `done` includes this step. Then it stays
/// at its peak until decay_start, and falls from peak to minimum over (decay_start, decay_over]; the work done before this step counts.
/// Throws ContractError for a unit other than steps, samples or tokens.
double learning_rate(const LearningRate& schedule, const RunProgress& progress);

}  // namespace tandem::exec
