#include "sim/result/stage_note.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "sim/result/pass_times.hpp"

namespace tandem::sim {
namespace {

constexpr double kPicosecond = 1e-12;
constexpr double kMuchLonger = 1.10;  ///< a stage is much longer from this multiple of the median stage on

std::string seconds(double ps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", ps * kPicosecond);
  return text;
}

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t v : values) text += (text.empty() ? "[" : ", ") + std::to_string(v);
  return text + "]";
}

/// The lower one of two in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string stage_note(const Plan& plan, const Setup& setup, const SimulatedStep& simulated) {
  if (setup.graph.programs.size() < 2 || plan.cluster.perturbation.any()) return "";
  const LayerCosts costs = pass_times(plan, setup, simulated);
  const std::vector<double> stages = costs_of_stages(plan, costs, plan.layers_per_stage());
  const auto longest = std::max_element(stages.begin(), stages.end());
  const double usual = median(stages);
  if (usual <= 0 || *longest < kMuchLonger * usual) return "";
  const auto better = shorter_split(plan, costs, stack_splits(plan));
  if (!better) return "";
  const std::vector<double> then = costs_of_stages(plan, costs, *better);
  return "the passes of stage " + std::to_string(longest - stages.begin()) + " take " +
         std::to_string(std::lround(100 * (*longest / usual - 1))) + " % longer than the median stage's: with parallel.pipeline_split " +
         list(*better) + ", the longest would take about " + seconds(*std::max_element(then.begin(), then.end())) + " instead of " +
         seconds(*longest);
}

}  // namespace tandem::sim
