#pragma once
// What a layer, the embedding and the head take on one rank, and what they hold: read once off a step of a small plan with the same
// layers, and kept for every plan that has them, whatever its pipeline, data parallelism or batch.

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/schedule/pass_work.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// ps of device time, and how many operations of the host that takes.
struct PartTime {
  std::int64_t ps = 0, launches = 0;
};

/// [0]: of the first micro-batch, which writes gradients; [1]: of the others, which add.
using ByOrder = std::array<PartTime, 2>;

/// What schedules are made for (models/schedule/pass_work), of a micro-batch after the first.
struct LayerWork {
  PassWork block;         ///< of a layer whose forward pass runs again it holds its input
  std::int64_t again = 0; ///< of such a layer's forward pass as it runs again
  std::int64_t kept = 0;  ///< bytes that others hold besides
  PassWork embed, head;
};

struct LayerTimes {
  PartTime forward, recompute, embed_forward;
  PartTime metrics;                 ///< after the backward pass of the stage with the head
  std::int64_t sums = 0;            ///< ps that a layer of the last micro-batch takes longer: tensor ranks sum what they hold alike
  double computing = 1;             ///< of a layer's backward pass, by time
  /// Operations of the host for a block's first task and for a tensor collective.
  std::int64_t first_launches = 1, collective_launches = 1;
  bool update_recorded = false;  ///< the host has all of the update before it begins
  ByOrder backward, weight, embed_backward, head_forward, head_backward;
  // Elements of the parameters, padded as in the flat buffers.
  std::int64_t block = 0, word = 0, embedding = 0, head = 0;
  // Bytes of one micro-batch.
  Bytes saved;    ///< kept of one layer for its backward pass, its input not counted
  Bytes hidden;   ///< of the tensor between layers
  Bytes scratch;  ///< the most that a template uses
  LayerWork work;
  std::int64_t boundary_elements = 0;  ///< that one rank sends to the next stage
};

class LayerTimesCache {
 public:
  /// References outlive the cache.
  LayerTimesCache(const Topology& topology, const CostModel& cost) : topology_(topology), cost_(cost) {}

  /// Of a plan without experts, decoder or context parallelism.
  const LayerTimes& of(const Plan& plan);

 private:
  using Key = std::vector<std::int64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  static void write_key(Key& key, const Plan& plan);

  const Topology& topology_;
  const CostModel& cost_;
  std::unordered_map<Key, LayerTimes, KeyHash> known_;
  Key key_;  // scratch
};

}  // namespace tandem::sim
