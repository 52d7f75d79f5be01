#pragma once
// Computations that overlap with communication take longer: communication needs compute units and memory bandwidth.

#include <cstdint>
#include <vector>

#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

/// A step is simulated again with overlap delays if the sum of each stage's largest ones exceeds 1 / kNoticed (0.5 %) of it. That
/// is half of the percent to which the closed form agrees with the events; a slowdown is fitted no better.
inline constexpr std::int64_t kNoticed = 200;

/// Returns the share of a rank's memory bandwidth that a collective of many ranks uses if it lasts `ps` picoseconds.
double memory_share(const Collective& c, std::int64_t ps, Bandwidth memory);

/// Returns, for each role and computation, the extra time in ps that overlapping collectives cause: `slowdown` x (bytes that they
/// moved meanwhile / memory bandwidth). `simulated` is a step without such delays. Empty if nothing overlaps.
std::vector<RoleDelays> overlap_delays(const SimulatedStep& simulated, const TaskGraph& graph, double slowdown, Bandwidth memory);

}  // namespace tandem::sim
