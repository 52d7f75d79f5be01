#include "sim/result/steady_state.hpp"

#include <algorithm>

#include "sim/engine/repeated_steps.hpp"
#include "sim/engine/simulate_step.hpp"

namespace tandem::sim {
namespace {

/// When each role has ended step `step`, picoseconds.
std::vector<std::int64_t> ends_of(const SimulatedStep& simulated, const TaskGraph& one, std::int64_t step) {
  std::vector<std::int64_t> ends;
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    const Reader reader(simulated, r);
    std::int64_t end = 0;
    for (const Place& p : last_tasks(one, one.program(simulated.roles[r].stage), step))
      end = std::max(end, reader.ended(p.instance, p.task));
    ends.push_back(end);
  }
  return ends;
}

std::int64_t latest(const std::vector<std::int64_t>& ends) { return *std::max_element(ends.begin(), ends.end()); }

}  // namespace

SteadyState steady_state(const Setup& setup, const Options& options) {
  const TaskGraph graph = repeated_steps(setup.graph, kSteps);
  const SimulatedStep simulated = sim::simulate_step({graph, setup.mesh, setup.topology, setup.cost, setup.replay}, options);
  const std::vector<std::int64_t> before = ends_of(simulated, setup.graph, kSteps - 3),
                                  ends = ends_of(simulated, setup.graph, kSteps - 2);
  SteadyState out;
  out.step_time = Duration::picoseconds(latest(ends) - latest(before));
  out.roles.resize(static_cast<std::size_t>(setup.mesh.world_size()));
  for (std::size_t r = 0; r < simulated.roles.size(); ++r)
    for (const std::int32_t rank : simulated.roles[r].ranks) out.roles[static_cast<std::size_t>(rank)] = r;
  out.breakdowns = break_down(simulated, graph, ends, out.step_time.ps());
  return out;
}

Duration step_time(const Setup& setup, const Options& options) {
  return options.steps_overlap ? steady_state(setup, options).step_time : simulate_step(setup, options).step_time;
}

}  // namespace tandem::sim
