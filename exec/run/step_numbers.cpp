#include "exec/run/step_numbers.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::exec {

StepTable step_table(const Segment& segment, std::int64_t index) {
  StepTable table;
  table.step = static_cast<std::uint64_t>(segment.first_step + index);
  table.first_sample = segment.first_sample + index * segment.global_batch_size;
  return table;
}

StepTable with_update(StepTable table, const OptimizerSpec& optimizer, const RunProgress& progress, const ScaleState& scale) {
  RunProgress updated = progress;  // a skipped step moves neither the schedule nor Adam's bias correction
  updated.step -= scale.skipped;
  updated.samples = std::max<std::int64_t>(0, progress.samples - scale.skipped * progress.step_samples);
  const auto t = static_cast<double>(updated.step + 1);
  table.loss_scale = scale.loss_scale;
  table.inverse_scale = 1 / scale.loss_scale;
  table.good_steps = scale.good_steps;
  table.bad_steps = scale.bad_steps;
  table.learning_rate = learning_rate(optimizer.learning_rate, updated);
  table.bias_correction1 = 1 - std::pow(optimizer.beta1, t);
  table.bias_correction2 = 1 - std::pow(optimizer.beta2, t);
  return table;
}

ScaleState behind(const StepTable& table, const ScaleState& before) {
  return {table.loss_scale, table.good_steps, table.bad_steps, before.skipped + (table.found_nonfinite ? 1 : 0)};
}

ScaleState scale_at_start(const Plan& plan, const SavedState* resume) {
  if (resume != nullptr) return resume->facts().scale;
  ScaleState scale;
  if (plan.training.scales_loss()) scale.loss_scale = plan.training.loss_scale.initial;
  return scale;
}

}  // namespace tandem::exec
