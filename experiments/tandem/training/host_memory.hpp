#pragma once
// Whether the ranks of all processes of a host fit into its memory.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/process/world.hpp"
#include "models/base/error.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// What one process needs, and what its host has.
struct MemoryNeed {
  exec::Neighbour process;
  std::int64_t ranks = 0, bytes = 0;
  std::optional<std::int64_t> left;  ///< nothing: the host does not say
};

/// The first host on which one process, or all together, need more than there is. `left` of processes of a host may differ, as each
/// may have a limit of its own; together they are compared with the largest.
std::optional<Problem> memory_shortage(const std::string& plan, const std::vector<MemoryNeed>& all);

/// Throws InfeasibleError if the arenas of ranks need more than their host has free. Linux lends memory that it does not have, and
/// would kill a process later. All processes call it, after their ranks are placed. `graph`: of what the ranks perform.
void require_host_memory(const Plan& plan, const TaskGraph& graph, exec::World& world);

}  // namespace tandem::program
