#pragma once
// From gradients that a rank has to gradients that are sums: units leave as soon as they are complete (or at the end of the
// step), then (under other frameworks before) the two uses of a tied matrix are added, and the update follows.

#include <optional>

#include "models/lowering/stage/stage_memory.hpp"

namespace tandem::lowering {

inline bool exists(TemplateId t) { return t.value() >= 0; }

class GradientReduction {
 public:
  GradientReduction(const StageContext& c, StageId stage, StageMemory& memory, ProgramBuilder& builder);

  /// Templates of everything that comes after the backward passes; they must exist before scratch is placed.
  void prepare();
  const std::vector<TemplateId>& templates() const { return all_; }
  /// Of these, what forward passes need: gathers of weights and the sum of the loss.
  std::vector<TemplateId> forward_templates() const;

  /// The gradient of a region is complete for `micro_batch`.
  void completed(std::int32_t region, std::int32_t micro_batch);
  /// That of one use of the word matrix.
  void completed_word(WordUse use, std::int32_t micro_batch);
  /// Comes in front of a zero-bubble schedule's weight pass: a tied matrix is summed over its stages before those that are left, so
  /// that the first stage need not wait for the last one's (sail-sg/zero-bubble-pipeline-parallelism, branch arxiv:
  /// megatron/core/weight_grad_store.py, clear). Not where the stage has to sum something else before.
  void before_weights();
  /// A backward pass has ended: what is on its way of its gradients is taken up.
  void settle();
  /// The loss becomes that of the global batch.
  void sum_loss();
  /// What has not left yet leaves; tied matrices, the loss, the update, the new weights and what validates it follow.
  void finish();
  /// With overlap_param_gather the step begins with the weights that the last one has updated.
  void gather_updated_weights();
  /// Gathers a unit's weights (ZeRO 3).
  void gather(std::int32_t unit);
  /// A gathered unit is used next: it goes to its place, if it arrived elsewhere.
  void place(std::int32_t unit);

 private:
  struct UnitTemplates {
    TemplateId reduce, scatter_first, scatter_later, replicas, replicas_back, gather, copy_out, offloaded;
    TemplateId send, take_first, take_later;  ///< in two halves: a micro-batch's gradients, or all that travel in another type
  };
  /// Gradients of a micro-batch that are on their way.
  struct Sent {
    std::int32_t unit, mb;
    BufferId apart;        ///< where they are, if not in the unit's temporary gradients
    TemplateId take;       ///< what takes them up; none: they go where they belong
  };
  TemplateId add(Template t);
  UnitTemplates unit_templates(std::int32_t unit);
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
  bool beside_;                  ///< whole gradients leave when they are complete, not behind all passes
  std::int64_t data_;            ///< ranks that see different data
  bool uses_added_ = false;      ///< the gradients of a matrix' uses on this stage, before they leave
  std::vector<TemplateId> all_;
  std::vector<UnitTemplates> units_;
  std::map<std::int32_t, TemplateId> partial_;  ///< by region
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> done_;
  std::vector<bool> reduced_;
  bool tie_waits_ = false;       ///< the stage has its part of a matrix that others have, too, and it is not summed yet
  std::vector<Sent> sent_;       ///< of one unit, or of the root's
  std::vector<bool> root_;       ///< by unit
  std::map<std::int32_t, std::vector<std::int32_t>> root_done_;  ///< by micro-batch: units of the root that are complete
  std::optional<std::pair<std::int32_t, BufferId>> replicas_sent_;  ///< unit, and where the sum of its share over replicas is made
  TemplateId tie_, tie_stages_, tables_, loss_, optimizer_, validation_;
};

}  // namespace tandem::lowering
