#pragma once
// The tasks of a template that sim/engine/overlap needs: its computations, and the collectives that can overlap with them.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/exclusion.hpp"

namespace tandem::sim {

struct OverlapOutline {
  struct Traffic {
    const Collective* op;  ///< of the graph
    std::uint16_t task;
  };
  std::vector<Traffic>
      collectives;  ///< without sends, collectives in pieces beside their product, and collectives that exclude computation
  std::vector<std::uint16_t> computations;  ///< ascending
  std::size_t tasks = 0;
};

/// By template of `graph`, which must outlive what is returned. A collective that starts only when one computation of its instance
/// has ended, and that the very next one waits for, never overlaps with a computation of its rank.
std::vector<OverlapOutline> overlap_outlines(const TaskGraph& graph, const LaneOfStream& lanes);

}  // namespace tandem::sim
