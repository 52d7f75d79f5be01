#include "experiments/tandem/training/run_to_end.hpp"

#include <cmath>
#include <cstdio>
#include <string>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/training/report.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

std::string step_line(const exec::StepResult& s, const StepRates& rates) {
  char text[200];
  const std::string modules = s.mtp_loss ? "  mtp loss " + aligned(loss_text(*s.mtp_loss, 5), 8) : "";
  std::snprintf(text, sizeof text, "step %5lld  loss %8s%s  grad norm %9s  lr %.3e  %9.2f ms", static_cast<long long>(s.step),
                loss_text(s.loss, 5).c_str(), modules.c_str(), loss_text(s.grad_norm, 4).c_str(), s.learning_rate,
                s.step_time_s * 1e3);
  const std::string skipped = "  update skipped: its gradients are not finite, " + count_text(rates.skipped_steps) + " so far";
  return text + ("  " + rates_text(rates)) + (s.skipped() ? skipped : "");
}

/// Shown if it has changed; without a loss scale it is 1.
std::string scale_text(double before, double scale) {
  return scale == before ? "" : "  loss scale " + number_text(scale, 0);
}

std::string evaluation_line(const exec::EvaluationResult& e) {
  return "evaluation after step " + std::to_string(e.step) + "  loss " + aligned(loss_text(e.loss, 5), 8) + "  perplexity " +
         loss_text(std::exp(e.loss), 3);
}

}  // namespace

exec::RunResult run_to_end(const Training& of, exec::RunOptions options, const Watchers& watchers) {
  auto& [numbers, metrics, rates] = watchers;
  auto& [graphs, data, world] = of;
  const InterruptWatch watch(!world.several());
  const std::int64_t done = options.resume != nullptr ? options.resume->facts().steps : 0;
  Progress progress(options.steps - done);
  double scale = 1;
  options.on_step = [&](const exec::StepResult& s) {
    const StepRates speed = rates.add(s);
    log(step_line(s, speed) + scale_text(scale, s.loss_scale));
    scale = s.loss_scale;
    numbers.note(s);
    metrics.add(s, speed);
    progress.done(s.step + 1 - done);
  };
  options.on_evaluation = [&](const exec::EvaluationResult& e) {
    log(evaluation_line(e));
    metrics.add(e);
  };
  options.on_note = [](const std::string& note) { log(note); };
  options.stop = [&] {
    if (InterruptWatch::pressed() && world.several()) log(InterruptWatch::notice());
    return InterruptWatch::pressed() || numbers.hopeless();
  };
  return naming(graphs.plan().file, [&] { return exec::run(graphs, data, options, world); });
}

}  // namespace tandem::program
