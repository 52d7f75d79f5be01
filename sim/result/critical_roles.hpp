#pragma once
// Finds the roles whose breakdowns a summary of a step shows, without breaking down all roles.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

/// By role: picoseconds that its computations take, the sum of the shares `compute` and `optimizer` of its breakdown.
std::vector<std::int64_t> computing_time(const SimulatedStep& simulated, const TaskGraph& graph);

/// Roles that waited for a free receive buffer while a sender was ready, ascending. No other role has a credit stall.
std::vector<std::size_t> roles_without_buffer(const SimulatedStep& simulated, const TaskGraph& graph);

}  // namespace tandem::sim
