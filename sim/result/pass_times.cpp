#include "sim/result/pass_times.hpp"

#include <algorithm>
#include <numeric>

#include "sim/result/critical_roles.hpp"

namespace tandem::sim {
namespace {

/// By stage: its role that computes longest.
std::vector<std::size_t> longest_roles(const Setup& setup, const SimulatedStep& simulated) {
  const std::vector<std::int64_t> times = computing_time(simulated, setup.graph);
  std::vector<std::int64_t> most(setup.graph.programs.size(), -1);
  std::vector<std::size_t> out(most.size(), 0);
  for (std::size_t r = 0; r < times.size(); ++r) {
    const std::size_t stage = simulated.roles[r].stage.index();
    if (times[r] > most[stage]) most[stage] = times[r], out[stage] = r;
  }
  return out;
}

bool computes(const Template& t) {
  return std::any_of(t.tasks.begin(), t.tasks.end(), [](const Task& task) { return task.stream == Stream::compute; });
}

/// From an instance's first computation or collective in its layer to the last; 0: it has none.
std::int64_t lasted(const Reader& reader, const std::vector<Task>& tasks, std::uint32_t i) {
  std::int64_t first = INT64_MAX, last = 0;
  for (std::uint16_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].stream != Stream::compute && tasks[t].stream != Stream::tensor) continue;
    first = std::min(first, reader.started(i, t));
    last = std::max(last, reader.ended(i, t));
  }
  return std::max<std::int64_t>(0, last - std::min(first, last));
}

}  // namespace

LayerCosts pass_times(const Plan& plan, const Setup& setup, const SimulatedStep& simulated) {
  LayerCosts out;
  const std::vector<std::int64_t> split = plan.layers_per_stage();
  const std::int64_t layers = std::accumulate(split.begin(), split.end(), std::int64_t{0}), micro_batches = plan.micro_batches();
  out.layers.assign(static_cast<std::size_t>(layers), 0.0);
  for (const std::size_t role : longest_roles(setup, simulated)) {
    const Reader reader(simulated, role);
    const Program& program = setup.graph.program(simulated.roles[role].stage);
    const bool first = simulated.roles[role].stage.value() == 0;
    for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
      const Instance& instance = program.instances[i];
      if (instance.micro_batch != micro_batches / 2) continue;
      const Template& of = setup.graph.of(instance);
      const bool embeds = first && instance.layer < 0 && of.name.starts_with("embed_");
      const bool layer = instance.layer >= 0 && instance.layer < layers;
      if (!layer && !computes(of)) continue;  // every stage gathers what it receives in shares (scatter_p2p)
      double& sum = layer ? out.layers[static_cast<std::size_t>(instance.layer)] : embeds ? out.first : out.last;
      sum += static_cast<double>(micro_batches * lasted(reader, of.tasks, i));
    }
  }
  return out;
}

}  // namespace tandem::sim
