#include "sim/engine/step_limit.hpp"

#include <algorithm>
#include <numeric>

#include "sim/cost/time_limit.hpp"

namespace tandem::sim {
namespace {

double seconds(const SimulatedStep& simulated, std::size_t role, const Slot& slot) {
  if (slot.exchange < 0) return static_cast<double>(slot.duration) * 1e-12;
  return simulated.quotient.exchanges[simulated.quotient.roles[role].exchanges[static_cast<std::size_t>(slot.exchange)]]
      .alone.seconds();
}

/// How often each template occurs in a stage's program.
std::vector<double> occurrences(const TaskGraph& graph, const Program& program) {
  std::vector<double> out(graph.templates.size());
  for (const Instance& i : program.instances) ++out[i.tmpl.index()];
  return out;
}

double seconds_of_role(const SimulatedStep& simulated, std::size_t role, const std::vector<double>& occurs) {
  const std::vector<Slot>& slots = simulated.quotient.slots(role);
  double sum = 0;
  for (const std::uint32_t t : simulated.communications.templates[simulated.roles[role].stage.index()])
    for (std::uint32_t s = simulated.communications.first_slot[t]; s < simulated.communications.first_slot[t + 1]; ++s)
      sum += occurs[t] * seconds(simulated, role, slots[s]);
  return sum;
}

}  // namespace

void require_within_time_limit(const Setup& setup, const SimulatedStep& simulated) {
  std::vector<std::vector<double>> occurs;
  for (const Program& p : setup.graph.programs) occurs.push_back(occurrences(setup.graph, p));
  std::vector<double> longest(occurs.size());
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    double& of_stage = longest[simulated.roles[r].stage.index()];
    of_stage = std::max(of_stage, seconds_of_role(simulated, r, occurs[simulated.roles[r].stage.index()]));
  }
  if (std::accumulate(longest.begin(), longest.end(), 0.0) > static_cast<double>(kLongestSeconds)) refuse_step();
}

}  // namespace tandem::sim
