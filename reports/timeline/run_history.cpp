#include "reports/timeline/run_history.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/timeline/step_times.hpp"

namespace tandem {

namespace {

using nlohmann::json;

/// JSON has no NaN or infinity: such a loss becomes null.
json number(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

}  // namespace

std::string to_json(const RunHistory& h) {
  json steps = json::array(), evaluations = json::array();
  for (const TrainedStep& s : h.steps) {
    steps.push_back({{"step", s.step},
                     {"loss", number(s.loss)},
                     {"grad_norm", number(s.grad_norm)},
                     {"learning_rate", s.learning_rate},
                     {"step_time_s", s.step_time_s},
                     {"global_batch_size", s.global_batch_size}});
    if (s.mtp_loss) steps.back()["mtp_loss"] = number(*s.mtp_loss);
  }
  for (const EvaluatedStep& e : h.evaluations) evaluations.push_back({{"step", e.step}, {"loss", number(e.loss)}});
  const StepTimes times = step_times(h);
  const json all = {{"kept_step", h.kept_step},
                    {"peak_memory_bytes", h.peak_memory_bytes},
                    {"step_times", {{"steps", times.steps}, {"median_s", times.median_s}, {"low_s", times.low_s}, {"high_s", times.high_s}}},
                    {"steps", std::move(steps)},
                    {"evaluations", std::move(evaluations)}};
  return all.dump();
}

}  // namespace tandem
