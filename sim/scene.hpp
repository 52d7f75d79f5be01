#pragma once
// Everything one simulation reads.

#include <cstdint>
#include <vector>

#include "models/mesh.hpp"
#include "sim/replay.hpp"
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
  const Replay* replay = nullptr;  ///< rows of experts as a run had them; then `graph` is the replay's

  StageId stage_of(Rank r) const { return StageId(mesh.coords(r)[Axis::pp]); }
  /// Time of a computation of template `t` on an idle device of `rank`.
  Duration duration(Rank rank, std::size_t t, const Task& task) const {
    return cost.duration(replay == nullptr ? task.op : replay->timed(rank, t, task.op), task.dtype);
  }
};

/// How to simulate a scene.
struct Manner {
  bool unfolded = false;  ///< every rank its own role
  /// Ranks that differ from others for a reason the graph does not show (a straggler): ranks of different marks never
  /// share a role. Empty, or one per rank.
  std::vector<std::uint64_t> marks;
  bool singly = false;  ///< no patterns: every task is walked (tests)
};

}  // namespace tandem::sim
