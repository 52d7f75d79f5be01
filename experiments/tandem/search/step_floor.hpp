#pragma once
// Bounds from below on a candidate's step time and memory: nothing that the simulation of the plan could say is less.

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::search {

/// What one layer of one rank computes and keeps, the least over the model's kinds of layers.
struct LayerFloor {
  std::int64_t forward = 0, backward = 0, again = 0;  ///< ps of a micro-batch; `backward` with the weights' gradients
  std::int64_t back = 0;                              ///< ps: of `backward`, what the stage before waits for
  std::int64_t embedding = 0, head = 0;               ///< ps of a micro-batch, both passes
  std::int64_t elements = 0;                          ///< parameters
  std::int64_t kept = 0;                              ///< bytes of a micro-batch, until its backward pass, where it does not run again
  std::int64_t output = 0;                            ///< of these, what the next layer reads: all that stays of one that runs again
};

/// For several threads.
class FloorTable {
 public:
  /// References outlive the table.
  FloorTable(const Topology& topology, const sim::CostModel& cost) : topology_(topology), cost_(cost) {}

  /// Of a completed plan that was found to be possible. Read off the graph of a plan with one stage and the same layers.
  const LayerFloor& of(const Plan& plan);

 private:
  using Key = std::vector<std::int64_t>;
  LayerFloor read(const Plan& small) const;

  const Topology& topology_;
  const sim::CostModel& cost_;
  std::mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<LayerFloor>, WordsHash> known_;
};

/// ps of a step: the busiest stage computes all of its passes; before its first one lie those of earlier stages, and behind its last one
/// theirs again.
std::int64_t time_floor(const Plan& plan, const LayerFloor& layer);

/// Bytes of the first or a later stage's rank: parameters, gradients and states as ZeRO shares them out, and what layers keep for the
/// micro-batches that are under way in the first stage. Without embedding, head, workspaces and the framework's own.
std::int64_t memory_floor(const Plan& plan, const LayerFloor& layer, const Device& device);

/// What a rank of `plan` saves at most over one of `plain`, the same plan with ZeRO 1 at most and nothing offloaded: all gradients, weights
/// and states of the largest stage that ZeRO 2 or 3 shares out or the host has.
std::int64_t most_saved(const Plan& plan, const Plan& plain);

}  // namespace tandem::search
