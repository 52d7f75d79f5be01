#include "models/graph/decay_end.hpp"

#include <algorithm>

#include "models/graph/segments.hpp"

namespace tandem {

std::int64_t decay_end(const Plan& plan, std::int64_t steps, const Consumed& behind) {
  const std::string& unit = plan.training.optimizer.learning_rate.unit;
  if (unit == "steps") return steps;
  if (steps < behind.steps)  // passed: the plan's batches say where, if not too late
    return std::min(decay_end(plan, steps, {}), unit == "tokens" ? behind.tokens : behind.samples);
  const Segment last = segments(plan, steps, {behind.steps, behind.samples}).back();
  const std::int64_t samples = last.first_sample + last.steps * last.global_batch_size;
  const std::int64_t others = behind.tokens - behind.samples * plan.sequence_tokens();  // 0 for an encoder-decoder, which keeps its lengths
  return unit == "tokens" ? samples * plan.training.seq_length + others : samples;
}

std::int64_t decay_end(const Plan& plan, const Consumed& behind) {
  const std::int64_t named = plan.training.optimizer.learning_rate.decay_over;
  return named > 0 ? named : decay_end(plan, plan.training.steps, behind);
}

}  // namespace tandem
