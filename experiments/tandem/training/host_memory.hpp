#pragma once
// Whether the ranks of all processes fit into the memory of their hosts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/process/memory_pools.hpp"
#include "exec/process/world.hpp"
#include "models/base/error.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// What one process needs, and the memory that it may take it from.
struct MemoryNeed {
  exec::Neighbour process;
  std::int64_t ranks = 0, bytes = 0;
  std::vector<exec::MemoryPool> pools;  ///< empty: the host does not say
};

/// The first pool of memory from which one process, or all that share it, need more than is left.
std::optional<Problem> memory_shortage(const std::string& plan, const std::vector<MemoryNeed>& all);

/// Throws InfeasibleError if the arenas of ranks need more than their hosts and control groups have free. Linux lends memory that it does not have, and
/// would kill a process later. All processes call it, after their ranks are placed. `graph`: of what the ranks perform.
void require_host_memory(const Plan& plan, const TaskGraph& graph, exec::World& world);

}  // namespace tandem::program
