#pragma once
// Times and bytes of a layer, the embedding and the head on one rank, read off a simulated step of a small plan. They are cached
// for every plan with the same layers, whatever its pipeline, data parallelism or batch.

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/base/once_map.hpp"
#include "models/lowering/stage/stage_order.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/closed_form/layer_kinds.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/network/footprint_store.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Device time in ps, and the number of host operations that launch it.
struct PartTime {
  std::int64_t ps = 0, launches = 0;
};

/// [0]: the first micro-batch, which writes gradients; [1]: the others, which add to them.
using ByOrder = std::array<PartTime, 2>;

/// Times and bytes of a layer of one kind.
struct BlockTimes {
  PartTime forward, recompute;
  ByOrder backward, weight;
  Bytes saved;              ///< kept for one micro-batch's backward pass, without the layer's input
  lowering::LayerWork work; ///< only for schedules that split backward passes
};

struct LayerTimes {
  std::array<BlockTimes, kLayerKinds> blocks;
  PartTime embed_forward;
  PartTime metrics;                 ///< metrics, after the backward pass of the stage with the head
  /// Extra ps of each layer's backward pass in the last micro-batch: tensor ranks all-reduce gradients of parameters that each of
  /// them holds whole (norms, biases).
  std::int64_t tensor_sum = 0;
  double computing_share = 1;       ///< share of a layer's backward pass in which it computes; it waits for collectives otherwise
  /// Host operations that issue a block's first task, and a tensor collective.
  std::int64_t first_launches = 1, collective_launches = 1;
  bool update_recorded = false;  ///< no task of the update begins before the host has issued all of it
  ByOrder embed_backward, head_forward, head_backward;
  // Results of the lowering that do not depend on the stages.
  lowering::ModelRegions regions;
  lowering::EndWork ends;  ///< only for schedules that split backward passes
  // Bytes of one micro-batch.
  Bytes hidden;   ///< the tensor between layers
  Bytes scratch;  ///< largest scratch of a template other than the head's
  Bytes head;     ///< kept for the head's backward pass
  Bytes apart;    ///< live for the whole step beside weights, gradients and states: workspaces, scratch memory of kernels, copies of
                  ///< matrices, tokens
  Bytes kept_logits;  ///< live for the whole step where the head is (models/lowering/stage/kept_logits)
  Bytes passing;  ///< peak of all other tensors in the small model, which has both ends and holds one micro-batch
  std::vector<std::size_t> small_kinds;  ///< kinds of the small model's layers
  std::int64_t boundary_elements = 0;  ///< elements that one rank sends to the next stage
};

/// Least times in ps of a layer's forward and another layer's backward pass that alternate (models/lowering/stage/stage_pair). By
/// whether the backward pass adds to gradients, then by kind of the forward and of the backward pass; 0: not known. Without
/// recomputation if only some layers are computed again.
using PairTimes = std::array<std::array<std::array<std::int64_t, kLayerKinds>, kLayerKinds>, 2>;

class LayerTimesCache {
  using Key = std::vector<std::int64_t>;

 public:
  /// Times that the caches of several threads share.
  struct Store {
    OnceMap<Key, LayerTimes, WordsHash> layers;
    OnceMap<Key, PairTimes, WordsHash> pairs;
    std::size_t size() const { return layers.size(); }
  };

  /// References outlive the cache.
  LayerTimesCache(const Topology& topology, const CostModel& cost, Store& store, FootprintStore& footprints)
      : topology_(topology), cost_(cost), store_(store), footprints_(footprints) {}

  /// Returns the times of a plan without a decoder.
  const LayerTimes& of(const Plan& plan);
  /// Returns the times of pairs of passes of a plan that has them, without a decoder.
  const PairTimes& pairs_of(const Plan& plan);

 private:
  void make_small(const Plan& plan, std::int64_t more_layers = 0);
  void write_key(const Plan& plan);
  LayerTimes read() const;
  PairTimes read_pairs() const;

  const Topology& topology_;
  const CostModel& cost_;
  Store& store_;
  FootprintStore& footprints_;
  std::unordered_map<Key, const LayerTimes*, WordsHash> known_;
  std::unordered_map<Key, const PairTimes*, WordsHash> known_pairs_;
  Plan small_;  // scratch
  bool some_again_ = false;  // whether the plan of small_ computes only some layers again
  Key key_;     // scratch
};

}  // namespace tandem::sim
