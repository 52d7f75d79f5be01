#pragma once
// Time between the ends of two steps when ranks do not wait for each other between steps (parallel.optimizer_sync: post_validated).

#include <vector>

#include "sim/network/setup.hpp"
#include "sim/result/breakdown.hpp"

namespace tandem::sim {

/// Steps that are simulated after each other. Pipelines settle into one rhythm within the first
/// (tests/sim/result/steady_state_test.cpp), and the last is there only for what it has in common with the one before it: links.
inline constexpr std::int64_t kSteps = 4;

struct SteadyState {
  Duration step_time;                 ///< from the end of a step, on all ranks, to the end of the next
  std::vector<std::uint64_t> roles;   ///< by rank: its role among overlapping steps
  std::vector<Breakdown> breakdowns;  ///< by such role, of `step_time` before the role's own end of a step
};

/// Consecutive steps of `setup`.
SteadyState steady_state(const Setup& setup, const Options& options);

/// Time of a step among others: in the steady state, or of one step where ranks wait for each other.
Duration step_time(const Setup& setup, const Options& options);

}  // namespace tandem::sim
