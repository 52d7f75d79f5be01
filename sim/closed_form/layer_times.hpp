#pragma once
// What a layer, the embedding and the head take on one rank, and what they hold: read once off a step of a small plan with the same
// layers, and kept for every plan that has them, whatever its pipeline, data parallelism or batch.

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/lowering/stage/stage_order.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/closed_form/layer_kinds.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// ps of device time, and how many operations of the host that takes.
struct PartTime {
  std::int64_t ps = 0, launches = 0;
};

/// [0]: of the first micro-batch, which writes gradients; [1]: of the others, which add.
using ByOrder = std::array<PartTime, 2>;

/// Of the layers of one kind.
struct BlockTimes {
  PartTime forward, recompute;
  ByOrder backward, weight;
  Bytes saved;              ///< kept of one micro-batch for its backward pass, the layer's input not counted
  lowering::LayerWork work; ///< only for schedules that split backward passes
};

struct LayerTimes {
  std::array<BlockTimes, kLayerKinds> blocks;
  PartTime embed_forward;
  PartTime metrics;                 ///< after the backward pass of the stage with the head
  std::int64_t sums = 0;            ///< ps that a layer of the last micro-batch takes longer: tensor ranks sum what they hold alike
  double computing = 1;             ///< of a layer's backward pass, by time
  /// Operations of the host for a block's first task and for a tensor collective.
  std::int64_t first_launches = 1, collective_launches = 1;
  bool update_recorded = false;  ///< the host has all of the update before it begins
  ByOrder embed_backward, head_forward, head_backward;
  // What the lowering makes of the plan, whatever its stages.
  lowering::ModelRegions regions;
  lowering::EndWork ends;  ///< only for schedules that split backward passes
  // Bytes of one micro-batch.
  Bytes hidden;   ///< of the tensor between layers
  Bytes scratch;  ///< the most that a template uses, but for the head's
  Bytes head;     ///< kept of the head for its backward pass
  Bytes apart;    ///< for the whole step, beside weights, gradients and states: workspaces, copies of matrices, tokens
  Bytes passing;  ///< the most that comes and goes while the small model, which has both ends, holds one micro-batch
  std::vector<std::size_t> small_kinds;  ///< of the small model's layers
  std::int64_t boundary_elements = 0;  ///< that one rank sends to the next stage
};

class LayerTimesCache {
 public:
  /// References outlive the cache.
  LayerTimesCache(const Topology& topology, const CostModel& cost) : topology_(topology), cost_(cost) {}

  /// Of a plan without a decoder.
  const LayerTimes& of(const Plan& plan);

 private:
  using Key = std::vector<std::int64_t>;
  void make_small(const Plan& plan);

  const Topology& topology_;
  const CostModel& cost_;
  std::unordered_map<Key, LayerTimes, WordsHash> known_;
  Plan small_;  // scratch
  Key key_;     // scratch
};

}  // namespace tandem::sim
