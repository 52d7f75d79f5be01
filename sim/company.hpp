#pragma once
// Computations that ran beside communication: they took longer, for communication needs compute units and memory bandwidth.

#include <cstdint>
#include <vector>

#include "sim/play.hpp"

namespace tandem::sim {

/// By role: picoseconds that a computation takes beyond its own time when `slowdown` of the time it shared with
/// communication of its rank is added. Read off a play in which nothing was slowed. Empty when nothing overlaps.
std::vector<RoleDelays> delays_in_company(const Play& play, const TaskGraph& graph, double slowdown);

}  // namespace tandem::sim
