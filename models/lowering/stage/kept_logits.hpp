#pragma once
// Logits of earlier micro-batches that a framework still references; one of them is freed after each later forward pass.

#include <algorithm>
#include <vector>

#include "models/lowering/shapes/parameters.hpp"
#include "models/lowering/stage/stage_context.hpp"

namespace tandem::lowering {

class KeptLogits {
 public:
  KeptLogits(const StageContext& c, const std::vector<ChunkPart>& chunks, ProgramBuilder& b) : s_(c.shapes), b_(b) {
    const bool head = std::any_of(chunks.begin(), chunks.end(), [](const ChunkPart& p) { return p.last; });
    if (!head || c.forward_only || s_.loss_chunks > 1) return;
    if (by_pipeline_engine(c)) most_ = static_cast<std::size_t>(s_.fusion.kept_logits);
    // A loss that copies logits leaves the originals, in the activations' type, to the engine.
    if (s_.fusion.loss_copies) most_ = static_cast<std::size_t>(c.plan.stack.facts.kept_outputs), for_good_ = true;
  }

  /// Allocates the logits kept from earlier steps.
  void begin() {
    while (kept_.size() < most_) allocate();
  }
  void keep() {
    if (kept_.size() < most_) allocate();
  }
  void drop() {
    if (!for_good_) release();  // else the micro-batch's logits replace the earliest
  }
  void end() {
    while (!kept_.empty()) release();
  }
  const std::vector<BufferId>& kept() const { return kept_; }

 private:
  /// Whether DeepSpeed's pipeline engine runs the plan. It has only 1F1B and asserts ZeRO stage < 2
  /// (deepspeed/runtime/pipe/engine.py). Recipes for experts and Ulysses do not use it (microsoft/Megatron-DeepSpeed:
  /// examples_deepspeed/MoE, --no-pipeline-parallel; megatron/core/parallel_state.py).
  static bool by_pipeline_engine(const StageContext& c) {
    const bool plain = c.plan.parallel.schedule == ScheduleKind::one_f_one_b && c.plan.parallel.virtual_pipeline == 1;
    return plain && !c.shapes.sharded_gradients && c.shapes.experts == 0 && c.shapes.context == 1;
  }

  void release() {
    if (kept_.empty()) return;
    b_.release(kept_.back());
    kept_.pop_back();
  }
  void allocate() {
    const Bytes bytes = bytes_of(for_good_ ? s_.dtypes.compute : s_.loss_type(), s_.tokens * s_.loss_columns());
    kept_.push_back(b_.allocate("kept_logits", MemoryKind::activations, bytes));
  }

  const Shapes& s_;
  ProgramBuilder& b_;
  std::size_t most_ = 0;
  bool for_good_ = false;  ///< the same number is kept from the first to the last pass
  std::vector<BufferId> kept_;
};

}  // namespace tandem::lowering
