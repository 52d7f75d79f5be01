#include "experiments/tandem/explain/rows.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

std::string seconds_text(double s) { return number_text(s, 6) + " s"; }

const PerturbationCost& cost(const ExplainedCase& c) { return c.prediction.perturbation.value(); }

std::string difference(const ExplainedCase& c, std::size_t) {
  return seconds_text(c.prediction.step_time.seconds()) + " - " + seconds_text(cost(c).undisturbed.seconds());
}

Row of_spread(const std::string& key, const std::string& formula) {
  const auto filled = [](const ExplainedCase& c, std::size_t) {
    const Jitter& j = c.plan.cluster.perturbation.jitter;
    return "steps simulated with seeds " + std::to_string(j.seed) + " to " + std::to_string(j.seed + static_cast<std::uint64_t>(j.seeds) - 1);
  };
  return {"perturbation.step_time_over_seeds" + (key.empty() ? "" : "." + key), formula, filled, RangeKind::part, {}};
}

}  // namespace

std::vector<Row> perturbation_rows() {
  return {
      {"perturbation", "time that slow devices, slow and lost links and jitter of cluster.perturbation add to the step", difference, RangeKind::part, {}},
      {"perturbation.undisturbed_step_time_s", "step_time_s of the same plan without cluster.perturbation",
       [](const ExplainedCase& c, std::size_t) { return seconds_text(cost(c).undisturbed.seconds()); }, RangeKind::part, {}},
      {"perturbation.added_s", "step_time_s - perturbation.undisturbed_step_time_s", difference, RangeKind::part, {}},
      {"perturbation.changes[]", "one of these changes",
       [](const ExplainedCase& c, std::size_t place) { return cost(c).changes.at(place); }, RangeKind::exact, {}},
      {"perturbation.changes", "the changes that cluster.perturbation makes, one phrase for each",
       [](const ExplainedCase& c, std::size_t) { return std::to_string(cost(c).changes.size()) + " changes"; }, RangeKind::exact, {}},
      of_spread("", "step times of the same plan under several seeds of its jitter"),
      of_spread("seeds", "how many: cluster.perturbation.jitter.seeds"),
      of_spread("mean_s", "sum of the step times / seeds"),
      of_spread("deviation_s", "square root of the sum of squared differences from mean_s / (seeds - 1)"),
      of_spread("low_s", "the least of the step times"),
      of_spread("high_s", "the largest of the step times"),
  };
}

}  // namespace tandem::program
