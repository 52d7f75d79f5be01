#pragma once
// Which roles' breakdowns a summary of a step shows, found without breaking down all of them.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

/// By role: picoseconds that its computations take, the sum of the shares `compute` and `optimizer` of its breakdown.
std::vector<std::int64_t> computing_time(const SimulatedStep& simulated, const TaskGraph& graph);

/// Roles that have waited for a free receive buffer while a sender was ready, ascending: no other has a credit stall.
std::vector<std::size_t> roles_without_buffer(const SimulatedStep& simulated, const TaskGraph& graph);

}  // namespace tandem::sim
