#pragma once
// Where the roles' step went, and which of them the others wait for.

#include <map>
#include <optional>

#include "sim/result/breakdown.hpp"
#include "sim/result/steady_state.hpp"

namespace tandem::sim {

struct RoleTimes {
  bool every = true;
  std::map<std::size_t, Breakdown> breakdowns;  ///< by role: of every one, or of few
  std::size_t critical = 0;                     ///< the role whose compute stream is busiest; of several the first
};

/// Of the step alone, or of a step among others. Unless `every`, breakdowns are those of the critical role and of every role that has
/// a credit stall: the others would take longer than the simulation.
RoleTimes role_times(const Setup& setup, const SimulatedStep& simulated, const std::optional<SteadyState>& steady_state,
                     bool every);

}  // namespace tandem::sim
