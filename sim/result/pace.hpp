#pragma once
// How long after each other steps end, where no rank waits for all others in between (parallel.optimizer_sync, post_validated).

#include <vector>

#include "sim/network/scene.hpp"
#include "sim/result/breakdown.hpp"

namespace tandem::sim {

/// Steps that are played after each other. Pipelines settle into one rhythm within the first (tests/sim/result/pace_test.cpp), and the last
/// is there only for what it has in common with the one before it: links.
inline constexpr std::int64_t kSteps = 4;

struct Pace {
  Duration step_time;                 ///< from the end of a step, on all ranks, to the end of the next
  std::vector<std::uint64_t> roles;   ///< by rank: its role among overlapping steps
  std::vector<Breakdown> breakdowns;  ///< by such role, of `step_time` before the role's own end of a step
};

/// Consecutive steps of `scene`.
Pace pace(const Scene& scene, const Manner& manner);

/// Time of a step among others: that pace, or where ranks do wait for each other the time of one step.
Duration step_time(const Scene& scene, const Manner& manner);

}  // namespace tandem::sim
