#pragma once
// What company (sim/engine/company) asks of a template: which of its tasks compute, and which of its collectives can run beside
// computation.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/turns.hpp"

namespace tandem::sim {

struct CompanyOutline {
  struct Traffic {
    const Collective* op;  ///< of the graph
    std::uint16_t task;
  };
  std::vector<Traffic> collectives;         ///< that are no sends, do not run in pieces beside their product, and do not take turns
  std::vector<std::uint16_t> computations;  ///< ascending
  std::size_t tasks = 0;
};

/// By template of `graph`, which must outlive what is returned. A collective that starts only when one computation of its instance
/// has ended, and that the very next one waits for, takes turns with all computations of its rank.
std::vector<CompanyOutline> company_outlines(const TaskGraph& graph, const LaneOfStream& lanes);

}  // namespace tandem::sim
