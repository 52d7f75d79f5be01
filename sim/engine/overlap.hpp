#pragma once
// Computations that overlap with communication take longer: communication needs compute units and memory bandwidth.

#include <cstdint>
#include <vector>

#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

/// Delays are followed from one part in so many of the step on, half a percent: those of all stages together, as if each waited for the
/// others. That is half of the percent within which the closed form keeps to the events; a slowdown is fitted no better.
inline constexpr std::int64_t kNoticed = 200;

/// The share of a rank's memory bandwidth that a collective of `ps` picoseconds uses, when it has many ranks.
double memory_share(const Collective& c, std::int64_t ps, Bandwidth memory);

/// Returns, for each role and computation, the extra time in ps that overlapping collectives cause: `slowdown` x (bytes that they
/// moved meanwhile / memory bandwidth). `simulated` is a step without such delays. Empty when nothing overlaps.
std::vector<RoleDelays> overlap_delays(const SimulatedStep& simulated, const TaskGraph& graph, double slowdown, Bandwidth memory);

}  // namespace tandem::sim
