#include "sim/result/role_times.hpp"

#include <algorithm>
#include <vector>

#include "sim/result/critical_roles.hpp"

namespace tandem::sim {
namespace {

std::size_t first_largest(const std::vector<std::int64_t>& of_roles) {
  return static_cast<std::size_t>(std::max_element(of_roles.begin(), of_roles.end()) - of_roles.begin());
}

RoleTimes all_role_times(const std::vector<Breakdown>& breakdowns) {
  RoleTimes out;
  std::vector<std::int64_t> computing;
  for (std::size_t role = 0; role < breakdowns.size(); ++role) {
    out.breakdowns.emplace_hint(out.breakdowns.end(), role, breakdowns[role]);
    computing.push_back(breakdowns[role][Share::compute] + breakdowns[role][Share::optimizer]);
  }
  out.critical = first_largest(computing);
  return out;
}

RoleTimes few_role_times(const Setup& setup, const SimulatedStep& simulated) {
  RoleTimes out;
  out.every = false;
  out.critical = first_largest(computing_time(simulated, setup.graph));
  std::vector<std::size_t> roles = roles_without_buffer(simulated, setup.graph);
  if (!std::binary_search(roles.begin(), roles.end(), out.critical)) roles.push_back(out.critical);
  const std::vector<Breakdown> breakdowns = break_down(simulated, setup.graph, roles);
  for (std::size_t i = 0; i < roles.size(); ++i) out.breakdowns.emplace(roles[i], breakdowns[i]);
  return out;
}

}  // namespace

RoleTimes role_times(const Setup& setup, const SimulatedStep& simulated, const std::optional<SteadyState>& steady_state,
                     bool every) {
  if (!steady_state && !every) return few_role_times(setup, simulated);
  if (!steady_state) return all_role_times(break_down(simulated, setup.graph));
  std::vector<Breakdown> of_roles;
  for (const Role& r : simulated.roles)
    of_roles.push_back(steady_state->breakdowns[steady_state->roles[static_cast<std::size_t>(r.ranks.front())]]);
  RoleTimes out = all_role_times(of_roles);
  out.every = every;
  return out;
}

}  // namespace tandem::sim
