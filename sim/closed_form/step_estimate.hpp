#pragma once
// Estimates one plan's step from the times of its parts.

#include <vector>

#include "models/lowering/stage/update_spec.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "sim/closed_form/estimate.hpp"
#include "sim/closed_form/layer_times.hpp"
#include "sim/closed_form/link_times.hpp"
#include "sim/closed_form/schedule_formula.hpp"
#include "sim/closed_form/runtime_memory.hpp"

namespace tandem::sim::closed_form {

/// A unit of gradients and its reduction (models/lowering/shapes/stage_units.hpp). It is ready when its last region is complete.
struct Unit {
  std::int64_t elements = 0, ready = 0;
  std::int64_t start = 0, end = 0;  ///< ps; of the reduction
  std::int64_t moved = 0;           ///< scratch
  Replication replication = Replication::data;
  bool copy = false;                ///< a second gradient of parameters in another unit
  bool word = false;                ///< it contains the word embedding
};

/// Memory that is reused from plan to plan.
struct Scratch {
  PassTimes times;
  std::vector<Unit> units;
  std::int64_t passes = 0;   ///< ps: when the last pass has ended
};

/// The inputs of a plan's estimate.
struct Parts {
  const Plan& plan;
  const lowering::Shapes& shapes;
  const Topology& topology;
  const CostModel& cost;
  const LayerTimes& layer;
  const PairTimes* pairs;  ///< of a plan whose passes run in pairs
  LinkTimes& links;
  PassSchedules& schedules;
  RuntimeMemory& runtime;
  Scratch& scratch;
};

/// ps per micro-batch that MTP modules add to the last stage's passes.
struct ModulePasses {
  std::int64_t forward = 0, backward = 0;
};

/// The chunks of a stage, ascending.
using ChunkParts = std::vector<lowering::ChunkPart>;

class StepEstimate {
 public:
  explicit StepEstimate(const Parts& parts);

  Estimate estimate();
  /// When the last pass of all stages ends, ps: a lower bound of the step time, also with pairs of passes.
  std::int64_t passes(const ModulePasses& modules);

 private:
  /// Optimizer states of a stage in host memory. Unit by unit they are copied to the device, updated and copied back.
  struct HostStates {
    std::int64_t elements = 0;   ///< number of the rank's parameters with such states
    std::int64_t together = 0;   ///< most elements of two consecutive units: they are on the device at once
    std::int64_t arrival = 0;    ///< ps: copying the first unit to the device
    std::int64_t first = 0;      ///< ps: updating the first unit and copying it back
    std::int64_t rest = 0;       ///< ps: copying and updating all other units
    std::int64_t last_back = 0;  ///< ps: copying the last unit back, a part of `rest` or `first`
  };
  /// Work of one stage after its last pass, with times.
  struct Tail {
    std::int64_t reduced = 0;    ///< ps: when its gradients are reduced
    std::int64_t word = 0;       ///< ps: when the gradient of its copy of the word embedding is reduced
    std::int64_t gather = 0;     ///< ps that gathering its updated weights takes
    std::int64_t computed = 0;   ///< ps: when its computations end
    std::int64_t flat = 0, shard = 0;  ///< elements
    HostStates host;
  };

  // The pipeline.
  std::vector<PassWork> work() const;
  void fill_passes(const ModulePasses& modules = {});
  void fill_transfers();
  std::int64_t gather_time();
  std::int64_t pass(const ChunkParts& chunks, const lowering::ChunkPart& c, Phase phase, std::size_t order) const;
  std::int64_t ends_of(const lowering::ChunkPart& c, Phase phase, std::size_t order) const;
  std::int64_t pair(const lowering::ChunkPart& forward, const lowering::ChunkPart& backward, std::size_t order) const;
  void fill_pairs(const ModulePasses& modules);
  std::int64_t recomputed(const ChunkParts& chunks, const lowering::ChunkPart& c) const;
  /// Sums `of_kind` over `layers` layers from the global layer `first` on.
  template <class OfKind>
  std::int64_t layer_sum(std::int64_t first, std::int64_t layers, const OfKind& of_kind) const {
    if (only_kind_ < kLayerKinds) return layers * of_kind(in_.layer.blocks[only_kind_]);
    const KindCounts counts = kinds_.among(first, layers);
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (counts[k] > 0) sum += counts[k] * of_kind(in_.layer.blocks[k]);
    return sum;
  }
  std::int64_t recompute_pass(std::int64_t first, std::int64_t layers) const;
  std::int64_t backward_pass(std::int64_t first, std::int64_t layers, std::size_t order) const;
  /// Time of the last micro-batch's passes that make weight gradients.
  std::int64_t gradient_pass(std::int64_t first, std::int64_t layers) const;

  // Stages with equal chunks have the same units, which are listed once for one of them.
  struct StageParts {
    lowering::StageUnits units;
    HostStates host;
    std::size_t stage = 0;   ///< the stage that they were listed for
  };
  void list_parts();
  bool same_parts(std::size_t stage, std::size_t other) const;
  const StageParts& parts_of(std::int64_t s) const { return parts_[parts_of_[static_cast<std::size_t>(s)]]; }
  /// The layer, counted in its chunk, of region `r` of parts_of(s).
  std::int64_t layer_in_chunk(std::int64_t s, const lowering::RegionPlace& r) const {
    return r.layer - stages_[parts_of(s).stage][static_cast<std::size_t>(r.chunk)].first_layer;
  }

  // The exchange of gradients.
  std::vector<Tail> all_tails(const PassEnds& ends);
  Tail tail(std::int64_t s, const PassEnds& ends, std::int64_t& late);
  std::int64_t added_uses() const;
  void list_units(std::int64_t s, const PassEnds& ends, std::int64_t late);
  void align_units(std::int64_t s, const PassEnds& ends, std::int64_t late, std::int64_t computed);
  /// When the last micro-batch has added its gradient to a region of a chunk.
  std::int64_t completed(std::int64_t s, const lowering::RegionPlace& r, const PassEnds& ends, std::int64_t late) const;
  /// A tied matrix is summed over its stages while weight passes are left (GradientReduction::before_weights).
  bool tied_before_weights() const { return split_backward_ && d_ == 1 && tied_ && p_ > 1; }
  Collective unit_sum(const Unit& u) const;
  Collective weight_gather(const Unit& u) const;
  std::int64_t send_units(std::int64_t s);
  std::int64_t sending_until(std::int64_t when) const;
  std::int64_t memory_until(std::int64_t when) const;
  std::int64_t tied(const std::vector<Tail>& tails);
  std::int64_t update(const std::vector<Tail>& tails);
  lowering::UpdateSpec update_of(const Tail& t) const;
  HostStates host_states(std::size_t s) const;
  std::int64_t updated(const Tail& t, std::int64_t normed) const;
  // Weights that the step gathers first.
  void fill_gathers();
  std::int64_t gather_first(std::int64_t s);
  std::int64_t forward_from(std::int64_t s, const lowering::RegionPlace& r) const;
  Collective collective(CollectiveKind kind, Group group, std::int64_t elements, DType dtype) const {
    return {kind, group, elements, dtype, Reduce::sum};
  }
  Members data_groups(std::int64_t s) const { return {s * stride_, t_, d_, 1, t_}; }
  /// The ranks of a stage that have the same parameters.
  Members copies(std::int64_t s, Replication r) const {
    return r == Replication::data ? data_groups(s) : Members{s * stride_, with_experts_, stride_ / with_experts_, 1, with_experts_};
  }
  Members expert_group() const { return {0, in_.shapes.expert_tensor, in_.shapes.expert_ranks, 1, in_.shapes.expert_tensor}; }
  std::int64_t alone(const Op& op, const Members& members) { return in_.links.alone(op, members); }
  std::int64_t compute(const Op& op) const { return in_.cost.duration(op, dtypes_.compute).ps(); }

  Bytes memory(const std::vector<Tail>& tails);
  Bytes passing(std::int64_t s);
  Bytes kept(const ChunkParts& chunks) const;
  Bytes kept_by_small() const;
  Outside outside(Duration step, const std::vector<Tail>& tails);
  bool contended(Duration step);
  std::int64_t beside_exchanges();
  /// Elements of the first layer's gradient, without experts.
  std::int64_t layer_elements() const { return regions_.blocks[regions_.kinds.front().index()].elements; }
  bool host_bound() const;

  const Parts in_;
  const std::vector<ChunkParts> stages_;
  const ScheduleKind kind_;
  const GradientBuckets buckets_;
  const std::int64_t t_, d_, p_, v_, m_;   ///< tensor, data x context, pipeline, chunks, micro-batches
  const std::int64_t stride_;              ///< ranks of a stage
  const std::int64_t with_experts_;        ///< number of ranks that together hold all experts
  const LayerKinds kinds_;
  const std::size_t only_kind_;            ///< kind of all layers; kLayerKinds: there are several
  lowering::ModelRegions regions_;
  const lowering::Sharding sharding_;
  const bool split_backward_, tied_;
  const bool uses_apart_;                  ///< a stage with both uses of a tied matrix has, and reduces, a gradient of each
  const std::int64_t recompute_layers_;    ///< first layers of a stage that are recomputed; 0: all, -1: none
  const std::size_t order_;                ///< index of the last micro-batch in ByOrder
  const DTypes& dtypes_;
  ScheduleShape shape_;
  std::vector<StageParts> parts_;
  std::vector<std::size_t> parts_of_;      ///< by stage: index
  ShardUnit word_unit_;                    ///< unit of a stage's copy of the word embedding
  bool slowed_ = false;                    ///< the slowdown of computations by reductions is counted
  std::int64_t longer_ = 0;                ///< ps: this slowdown, summed over all stages
  std::int64_t beside_ = 0;                ///< ps: most of a stage's reductions that overlaps with its computation
  std::int64_t disturbed_ = 0;             ///< ps: most memory time of reductions beside a stage's computation
  std::int64_t way_ = 0;                   ///< ps: longest reductions of a stage
  std::int64_t gathered_first_ = 0;        ///< ps: longest gather of a stage's weights when the step begins
  std::int64_t gather_memory_ = 0;         ///< ps: most memory time of such gathers
};

}  // namespace tandem::sim::closed_form
