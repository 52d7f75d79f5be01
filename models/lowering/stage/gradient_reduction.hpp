#pragma once
// Data-parallel reduction and update. A unit's gradients are reduced when complete, or at the end of the
// step. The uses of a tied matrix are added after that (in some frameworks before). Then the update follows.

#include <optional>

#include "models/lowering/stage/stage_memory.hpp"

namespace tandem::lowering {

inline bool exists(TemplateId t) { return t.value() >= 0; }

class GradientReduction {
 public:
  GradientReduction(const StageContext& c, StageId stage, StageMemory& memory, ProgramBuilder& builder);

  /// Creates the templates of all work after the backward passes. They must exist before scratch is placed.
  void prepare();
  const std::vector<TemplateId>& templates() const { return all_; }
  /// The templates that forward passes need: gathers of weights and the sum of the loss.
  std::vector<TemplateId> forward_templates() const;

  /// Call when a region's gradient is complete for `micro_batch`.
  void completed(std::int32_t region, std::int32_t micro_batch);
  /// Call when the gradient of one use of the word matrix is complete.
  void completed_word(WordUse use, std::int32_t micro_batch);
  /// Called before a zero-bubble schedule's weight pass. Sums a tied matrix over its stages before the remaining weight
  /// passes, so that the first stage does not wait for the last one's (sail-sg/zero-bubble-pipeline-parallelism, branch
  /// arxiv: megatron/core/weight_grad_store.py, clear). Does nothing if the stage has another sum to finish first.
  void before_weights();
  /// Accumulates the reduced gradients that are in flight.
  void settle();
  /// Called at the end of a backward pass. Settles, and starts the reductions that were put off until then.
  void end_pass();
  /// Sums the loss over the global batch.
  void sum_loss();
  /// Finishes the step: remaining reductions, tied matrices, loss, update, gather of new weights, and validation.
  void finish();
  /// With overlap_param_gather: gathers, at the start of a step, the weights that the last one updated.
  void gather_updated_weights();
  /// Gathers a unit's weights (ZeRO 3).
  void gather(std::int32_t unit);
  /// Call before a gathered unit is used. Copies it to its place if it was gathered elsewhere.
  void place(std::int32_t unit);

 private:
  struct UnitTemplates {
    TemplateId reduce, scatter_first, scatter_later, replicas, replicas_back, gather, copy_out, offloaded;
    TemplateId send, take_first, take_later;  ///< in two tasks, send and accumulate: for one micro-batch, or in another type
  };
  /// Gradients of one micro-batch whose reduction is in flight.
  struct Sent {
    std::int32_t unit, mb;
    BufferId apart;        ///< their buffer, if not the unit's temporary gradients
    TemplateId take;       ///< accumulates them; unset: they arrive in their final place
  };
  TemplateId add(Template t);
  UnitTemplates unit_templates(std::int32_t unit);
  void add_gather(std::int32_t unit, UnitTemplates& t);
  Template weight_gather(std::int32_t unit) const;
  void gradient_templates(std::int32_t unit, const ReduceSpec& spec, UnitTemplates& t);
  ReduceSpec spec_of(std::int32_t unit, std::string name, DType dtype, MemoryKind kind) const;
  Group group_of(const ShardUnit& unit) const;
  Group sum_group(const ShardUnit& unit) const;
  std::int64_t ranks_of(const ShardUnit& unit) const;
  bool each_micro_batch() const { return memory_.gradients_sharded(); }
  bool whole_gradients() const { return !memory_.gradients_sharded(); }
  void count(std::int32_t unit, std::int32_t micro_batch);
  void sum_partial(std::int32_t region, std::int32_t micro_batch);
  void reduce(std::int32_t unit, std::int32_t micro_batch);
  void reduce_aligned();
  bool in_halves(std::int32_t unit) const;
  void reduce_micro_batch(std::int32_t unit, std::int32_t mb);
  void send(std::int32_t unit, std::int32_t mb);
  bool sent_apart(const ReduceSpec& spec) const;
  void whole_in_halves(const ReduceSpec& spec, UnitTemplates& t);
  void send_whole(std::int32_t unit);
  void take_up(const Sent& sent);
  void take_up_all();
  bool in_root(std::int32_t unit) const { return root_[static_cast<std::size_t>(unit)]; }
  void count_root(std::int32_t unit, std::int32_t mb);
  void sum_replicas(std::int32_t unit);
  void take_replicas();
  void tie_embeddings();
  void tie_stages();
  void sum_over_stages();
  TemplateId across_stages(std::int32_t region, std::string name, Group group);
  Binding share_of(std::int32_t region);
  void update();
  void update_offloaded();
  TemplateId offloaded_template(std::int32_t unit);

  const StageContext& c_;
  const Shapes& s_;
  StageMemory& memory_;
  ProgramBuilder& b_;
  std::int32_t micro_batches_;
  bool beside_;                  ///< whole gradients are reduced when complete, not after all passes
  bool aligned_;                 ///< and not before GradientBuckets::aligned allows it
  std::int64_t stage_;
  std::int64_t passes_ = 0;      ///< ended backward passes; counts repeated ones once
  std::int64_t data_;            ///< number of ranks with different data
  bool uses_added_ = false;      ///< gradients of a matrix' uses on this stage are added before their reduction
  std::vector<TemplateId> all_;
  std::vector<UnitTemplates> units_;
  std::map<std::int32_t, TemplateId> partial_;  ///< by region
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> done_;
  std::vector<bool> reduced_;
  bool tie_waits_ = false;       ///< the stage's part of a shared matrix is complete but not yet summed over stages
  /// Complete units that are not reduced yet, and the backward pass at whose end they are, as counted in `passes_`.
  std::vector<std::pair<std::int32_t, std::int64_t>> waiting_;
  std::vector<Sent> sent_;       ///< sent gradients of one unit, or of the root unit
  std::vector<bool> root_;       ///< by unit
  std::map<std::int32_t, std::vector<std::int32_t>> root_done_;  ///< by micro-batch: completed units of the root unit
  std::optional<std::pair<std::int32_t, BufferId>> replicas_sent_;  ///< unit, and buffer of its shard's sum over replicas
  TemplateId tie_, tie_stages_, tables_, loss_, optimizer_, validation_;
};

}  // namespace tandem::lowering
