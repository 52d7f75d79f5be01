#pragma once
// ZeRO 3: weights are gathered before they are used and dropped afterwards, some layers ahead of the computation.

#include "models/lowering/gradient_reduction.hpp"

namespace tandem::lowering {

class WeightGather {
 public:
  /// Regions that are used together, in the order of use.
  using Needs = std::vector<std::vector<std::int32_t>>;

  /// `ahead`: uses whose weights are on the way while one computes.
  WeightGather(StageMemory& memory, GradientReduction& reduction, std::int64_t ahead)
      : memory_(memory), reduction_(reduction), ahead_(static_cast<std::size_t>(ahead)) {}

  /// What the following pass will use. Without ZeRO 3 nothing of this does anything. `keep_last`: the pass behind it begins with
  /// what this one ends with, which stays (PyTorch: torch/distributed/fsdp/_runtime_utils.py, _post_forward_reshard leaves the
  /// root unit; pytorch/torchtitan: torchtitan/models/llama3/infra/parallelize.py, apply_fsdp; DeepSpeed:
  /// stage3_max_reuse_distance).
  void plan(Needs needs, bool keep_last = false) {
    if (!memory_.weights_sharded()) return;
    needs_ = std::move(needs);
    keep_last_ = keep_last;
    now_ = asked_ = 0;
  }

  /// Regions that stay, whatever uses them, until `let_go`: FSDP's root unit (pytorch/pytorch: torch/distributed/fsdp/_fully_shard/
  /// _fsdp_state.py, _lazy_init does not reshard the root after the forward pass).
  void hold(const std::vector<std::int32_t>& regions) {
    for (const std::int32_t r : regions)
      if (const std::int32_t u = unit_of(r); ++users_[u] == 1) reduction_.gather(u);
    for (const std::int32_t r : regions) reduction_.place(unit_of(r));
  }
  void let_go(const std::vector<std::int32_t>& regions) {
    for (const std::int32_t r : regions) leave(unit_of(r));
  }

  /// The next use begins: its weights, and those of the next ones, are asked for.
  void begin() {
    if (!memory_.weights_sharded()) return;
    for (; asked_ < needs_.size() && asked_ <= now_ + ahead_; ++asked_)
      for (const std::int32_t unit : units(asked_))
        if (++users_[unit] == 1) reduction_.gather(unit);
    for (const std::int32_t unit : units(now_)) reduction_.place(unit);
    for (const std::int32_t unit : kept_) leave(unit);
    kept_.clear();
  }

  /// The use has ended.
  void end() {
    if (!memory_.weights_sharded()) return;
    const std::vector<std::int32_t> used = units(now_++);
    if (keep_last_ && now_ == needs_.size()) kept_ = used;
    else
      for (const std::int32_t unit : used) leave(unit);
  }

 private:
  void leave(std::int32_t unit) {
    if (--users_[unit] == 0) memory_.release_weights(unit);
  }
  std::vector<std::int32_t> units(std::size_t use) const {
    std::vector<std::int32_t> found;
    for (const std::int32_t region : needs_[use]) found.push_back(unit_of(region));
    return found;
  }
  std::int32_t unit_of(std::int32_t region) const { return memory_.params().regions[static_cast<std::size_t>(region)].unit; }

  StageMemory& memory_;
  GradientReduction& reduction_;
  std::size_t ahead_;
  Needs needs_;
  bool keep_last_ = false;
  std::size_t now_ = 0, asked_ = 0;
  std::map<std::int32_t, std::int32_t> users_;
  std::vector<std::int32_t> kept_;   ///< by the last pass, for the next one
};

}  // namespace tandem::lowering
