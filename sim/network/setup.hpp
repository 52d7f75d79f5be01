#pragma once
// Everything one simulation reads.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "models/plan/perturbation.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/time_limit.hpp"
#include "sim/network/replay.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// What is simulated. References must outlive the simulation.
struct Setup {
  const TaskGraph& graph;
  const Mesh& mesh;
  const Topology& topology;
  const CostModel& cost;
  const Replay* replay = nullptr;  ///< rows of experts as a run had them; then `graph` is the replay's

  StageId stage_of(Rank r) const { return StageId(mesh.coords(r)[Axis::pp]); }
  /// Of the full speed of a device at which that of `rank` computes.
  double speed(Rank rank) const { return topology.speed(topology.device_of(rank)); }
  /// Time of a computation of template `t` on an idle device of `rank`.
  Duration duration(Rank rank, std::size_t t, const Task& task) const {
    const Duration full = cost.duration(replay == nullptr ? task.op : replay->timed(rank, t, task.op), task.dtype);
    const double share = speed(rank);
    return share == 1 ? full : slowed(full, share);
  }
};

/// How to simulate it.
struct Options {
  bool unfolded = false;  ///< every rank its own role
  /// Ranks that differ from others for a reason that neither graph nor machine shows (rows of a routing): ranks of different marks
  /// never share a role. Empty, or one per rank.
  std::vector<std::uint64_t> marks;
  bool singly = false;  ///< neither patterns nor runs: every task is walked (tests)
  std::optional<Jitter> jitter = {};  ///< every rank is then its own role
  /// Ranks do not wait for each other between steps; programs end with what validates their update.
  bool steps_overlap = false;
};

}  // namespace tandem::sim
