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
#include "sim/network/footprint_store.hpp"
#include "sim/network/replay.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// The inputs of a simulation. References must outlive it.
struct Setup {
  const TaskGraph& graph;
  const Mesh& mesh;
  const Topology& topology;
  const CostModel& cost;
  const Replay* replay = nullptr;  ///< routing of a run to replay; then `graph` is the replay's
  FootprintStore* footprints = nullptr;  ///< of this topology, for the simulations of many plans

  StageId stage_of(Rank r) const { return StageId(mesh.coords(r)[Axis::pp]); }
  /// Share of its full speed at which the device of `rank` computes.
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
  bool unfolded = false;  ///< every rank is a role of its own
  /// By rank, or empty: ranks with different marks never share a role. They mark differences that neither graph nor machine shows
  /// (rows of a routing).
  std::vector<std::uint64_t> marks;
  bool singly = false;  ///< neither patterns nor runs: every task is walked (tests)
  std::optional<Jitter> jitter = {};  ///< if set, every rank is a role of its own
  /// Ranks do not wait for each other between steps; every program ends with the validation of its update.
  bool steps_overlap = false;
};

}  // namespace tandem::sim
