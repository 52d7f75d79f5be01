#pragma once
// Computations that ran beside communication: they took longer, for communication needs compute units and memory bandwidth.

#include <cstdint>
#include <vector>

#include "sim/engine/play.hpp"

namespace tandem::sim {

/// Of a memory's bandwidth, the share that a collective which took `ps` has of it on a rank; that of many ranks.
double memory_share(const Collective& c, std::int64_t ps, Bandwidth memory);

/// By role: picoseconds that a computation takes beyond its own time when `slowdown` of the time that the memory takes for what
/// collectives of its rank moved meanwhile is added. Read off a play in which nothing was slowed. Empty when nothing overlaps.
std::vector<RoleDelays> delays_in_company(const Play& play, const TaskGraph& graph, double slowdown, Bandwidth memory);

}  // namespace tandem::sim
