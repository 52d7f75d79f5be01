#pragma once
// Lower bounds on a candidate's step time and memory: the plan's simulation is never below them.

#include <cstdint>
#include <vector>

#include "models/base/once_map.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::search {

/// Computation and memory of a layer on one rank; minima over the model's kinds of layers.
struct LayerFloor {
  std::int64_t forward = 0, backward = 0, again = 0;  ///< ps a micro-batch; `again`: recomputation; `backward`: + weight gradients
  std::int64_t back = 0;                              ///< ps: the part of `backward` for which the previous stage waits
  std::int64_t embedding = 0, head = 0;               ///< ps per micro-batch, both passes; `head`: + MTP modules
  std::int64_t module_forward = 0, module_backward = 0;  ///< ps per micro-batch: the MTP modules' part of `head`, no weight passes
  std::int64_t elements = 0;                          ///< parameters
  std::int64_t trained = 0;                           ///< parameters that are not frozen
  std::int64_t kept = 0;                              ///< bytes per micro-batch, until the backward pass; without recomputation
  std::int64_t output = 0;                            ///< of these, the next layer's input: all that is kept with recomputation
};

/// Thread-safe.
class FloorTable {
 public:
  /// Keeps references to its arguments.
  FloorTable(const Topology& topology, const sim::CostModel& cost) : topology_(topology), cost_(cost) {}

  /// The floor of a completed, possible plan. Read from the graph of a one-stage plan with the same layers.
  const LayerFloor& of(const Plan& plan);
  /// The floor of all plans that differ only in what they compute again: nothing is computed again, and only outputs are kept.
  LayerFloor unrepeated(const Plan& plan);
  /// The number of layers that were lowered.
  std::size_t size() const { return known_.size(); }

 private:
  using Key = std::vector<std::int64_t>;
  LayerFloor read(const Plan& small) const;
  LayerFloor read(const std::vector<Plan>& kinds) const;

  const Topology& topology_;
  const sim::CostModel& cost_;
  OnceMap<Key, LayerFloor, WordsHash> known_;
};

/// Lower bound on a step in ps: the busiest stage computes all its passes. Before its first one come those of earlier stages, and
/// after its last one theirs again.
std::int64_t time_floor(const Plan& plan, const LayerFloor& layer);

/// Lower bound in bytes on a rank's memory in the first or a later stage: parameters, gradients and states as ZeRO shards them, and
/// tensors kept for the first stage's micro-batches in flight. Excludes embedding, head, workspaces and the framework.
std::int64_t memory_floor(const Plan& plan, const LayerFloor& layer, const Device& device);

/// Upper bound on the memory that a rank of `plan` saves over `plain`, the same plan with at most ZeRO 1 and no offloading: the
/// gradients, weights and states of the largest stage that ZeRO 2 or 3 shards or the host holds.
std::int64_t most_saved(const Plan& plan, const Plan& plain);

}  // namespace tandem::search
