#pragma once
// Everything one simulation reads.

#include <cstdint>
#include <vector>

#include "models/mesh.hpp"
#include "models/task_graph.hpp"
#include "sim/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// References must outlive the simulation.
struct Scene {
  const TaskGraph& graph;
  const Mesh& mesh;
  const Topology& topology;
  const CostModel& cost;

  StageId stage_of(Rank r) const { return StageId(mesh.coords(r)[Axis::pp]); }
};

/// How to simulate a scene.
struct Manner {
  bool unfolded = false;  ///< every rank its own role
  /// Ranks that differ from others for a reason the graph does not show (a straggler): ranks of different marks never
  /// share a role. Empty, or one per rank.
  std::vector<std::uint64_t> marks;
};

}  // namespace tandem::sim
