#pragma once
// Time between the ends of two steps if ranks do not wait for each other between steps (parallel.optimizer_sync: post_validated).

#include <vector>

#include "sim/network/setup.hpp"
#include "sim/result/breakdown.hpp"

namespace tandem::sim {

/// Number of consecutive steps that are simulated. Pipelines reach a steady state within the first
/// (tests/sim/result/steady_state_test.cpp). The last one only shares links with the one before it, which is measured.
inline constexpr std::int64_t kSteps = 4;

struct SteadyState {
  Duration step_time;                 ///< from the end of a step, on all ranks, to the end of the next
  std::vector<std::uint64_t> roles;   ///< by rank: its role among overlapping steps
  std::vector<Breakdown> breakdowns;  ///< by such role: the `step_time` before its own end of a step
};

/// Simulates consecutive steps of `setup`.
SteadyState steady_state(const Setup& setup, const Options& options);

/// Step time: in the steady state if steps overlap, else of one step alone.
Duration step_time(const Setup& setup, const Options& options);

}  // namespace tandem::sim
