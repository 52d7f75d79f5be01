#pragma once
// Breakdowns of the roles, and the critical role that the others wait for.

#include <map>
#include <optional>

#include "sim/result/breakdown.hpp"
#include "sim/result/steady_state.hpp"

namespace tandem::sim {

struct RoleTimes {
  bool every = true;
  std::map<std::size_t, Breakdown> breakdowns;  ///< by role; of all roles or of few
  std::size_t critical = 0;                     ///< the first of the roles whose compute stream is busiest
};

/// Breaks down the step alone, or a step among others (`steady_state`). Unless `every`, only the critical role and roles with a
/// credit stall may have breakdowns: all of them would take longer than the simulation.
RoleTimes role_times(const Setup& setup, const SimulatedStep& simulated, const std::optional<SteadyState>& steady_state,
                     bool every);

}  // namespace tandem::sim
