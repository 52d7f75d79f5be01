#pragma once
// The tasks of a template that sim/engine/overlap needs: its computations, and the collectives that can overlap with them.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/exclusion.hpp"

namespace tandem::sim {

struct OverlapOutline {
  struct Traffic {
    const Collective* op;  ///< points into the graph
    std::uint16_t task;
  };
  std::vector<Traffic>
      collectives;  ///< without chunked ones, and without those that never overlap with a computation
  std::vector<std::uint16_t> computations;  ///< ascending
  std::size_t tasks = 0;
};

/// Returns one outline a template; `graph` must outlive them. A collective that waits for a computation of its instance, and that
/// the very next computation waits for, never overlaps with a computation of its rank.
std::vector<OverlapOutline> overlap_outlines(const TaskGraph& graph, const LaneOfStream& lanes);

}  // namespace tandem::sim
