#include "models/graph/decay_end.hpp"

#include "models/graph/segments.hpp"

namespace tandem {

std::int64_t decay_end(const Plan& plan, std::int64_t steps) {
  const std::string& unit = plan.training.optimizer.learning_rate.unit;
  if (unit == "steps") return steps;
  const Segment last = segments(plan, steps).back();
  const std::int64_t samples = last.first_sample + last.steps * last.global_batch_size;
  return unit == "tokens" ? samples * plan.training.seq_length : samples;
}

std::int64_t decay_end(const Plan& plan) {
  const std::int64_t named = plan.training.optimizer.learning_rate.decay_over;
  return named > 0 ? named : decay_end(plan, plan.training.steps);
}

}  // namespace tandem
