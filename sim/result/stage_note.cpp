#include "sim/result/stage_note.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "models/planfile/stage_split.hpp"
#include "sim/result/critical_roles.hpp"

namespace tandem::sim {
namespace {

constexpr double kPicosecond = 1e-12;

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

/// Picoseconds by stage, of its rank that computes most.
std::vector<double> by_stage(const Setup& setup, const SimulatedStep& simulated) {
  std::vector<double> stages(setup.graph.programs.size(), 0.0);
  const std::vector<std::int64_t> roles = computing_time(simulated, setup.graph);
  for (std::size_t r = 0; r < roles.size(); ++r) {
    double& stage = stages[simulated.roles[r].stage.index()];
    stage = std::max(stage, static_cast<double>(roles[r]));
  }
  return stages;
}

}  // namespace

std::string stage_note(const Plan& plan, const Setup& setup, const SimulatedStep& simulated) {
  if (setup.graph.programs.size() < 2 || plan.cluster.perturbation.any()) return "";
  const std::vector<double> stages = by_stage(setup, simulated);
  const auto better = better_split(plan, stages);
  if (!better) return "";
  return "stage " + std::to_string(better->stage) + " computes " + std::to_string(std::lround(100 * better->excess)) +
         " % longer than the median stage: with parallel.pipeline_split " + list(better->split) + ", the longest would compute about " +
         seconds(better->longest) + " instead of " + seconds(stages[static_cast<std::size_t>(better->stage)]);
}

}  // namespace tandem::sim
