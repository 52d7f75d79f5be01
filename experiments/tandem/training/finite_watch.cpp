#include "experiments/tandem/training/finite_watch.hpp"

#include <cmath>
#include <cstdio>

#include "reports/prediction/text.hpp"

namespace tandem::program {

void FiniteWatch::note(const exec::StepResult& step) {
  last_ = step.step;
  const bool finite = std::isfinite(step.loss) && std::isfinite(step.mtp_loss.value_or(0));
  was_finite_ = was_finite_ || (finite && !step.skipped());
  const bool lost = !finite || (step.skipped() && step.loss_scale <= least_scale_);
  if (!lost) since_.reset();
  else if (!since_) since_ = step.step;
}

std::string FiniteWatch::text() const {
  const std::int64_t count = last_ - *since_ + 1;
  const std::string what = "loss or gradients are not finite in ";
  if (count == 1) return what + "step " + std::to_string(last_);
  return what + count_text(count) + " steps in a row, steps " + std::to_string(*since_) + " to " + std::to_string(last_);
}

std::string remedy(const Plan& plan, const FiniteWatch& watch, const std::string& kept) {
  if (!watch.was_finite())
    return std::string("no step was finite, not even the first: check the weights that the run began with (--weights, --resume, model.init_std)") +
           (watch.wide() ? "" : ", or set training.precision to fp32");
  char rate[32];
  std::snprintf(rate, sizeof rate, "%g", plan.training.optimizer.learning_rate.peak);
  std::string out = "lower training.learning_rate (" + std::string(rate) + "), lengthen training.warmup";
  if (plan.training.clip_grad == 0) out += ", set training.clip_grad";
  return out + (kept.empty() ? "" : " and --resume " + kept);
}

}  // namespace tandem::program
