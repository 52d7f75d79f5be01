#pragma once
// ZeRO 3: gathers weights before their use, some layers ahead, and frees them afterwards.

#include <map>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/lowering/stage/gradient_reduction.hpp"

namespace tandem::lowering {

class WeightGather {
 public:
  /// Uses in order; each lists the regions that are used together.
  using Needs = std::vector<std::vector<std::int32_t>>;

  /// `ahead`: number of later uses whose weights are gathered while one use computes.
  WeightGather(StageMemory& memory, GradientReduction& reduction, std::int64_t ahead)
      : memory_(memory), reduction_(reduction), ahead_(static_cast<std::size_t>(ahead)) {}

  /// Sets which units the next pass uses. Without ZeRO 3 all functions here do nothing.
  void plan(Needs needs) {
    if (!memory_.weights_sharded()) return;
    needs_ = std::move(needs);
    stay_.clear();
    now_ = asked_ = 0;
  }
  /// plan() for a pass that is followed by an equal one: everything stays gathered (arXiv 2211.05953, breadth-first schedules;
  /// PyTorch's pipelines also gather around a run of passes: torch/distributed/pipelining/schedules.py, _add_unshard_reshard).
  void plan_before_same(Needs needs) {
    plan(std::move(needs));
    std::map<std::int32_t, std::size_t> next;  // use, by unit
    for (std::size_t use = needs_.size(); use-- > 0;)
      for (const std::int32_t unit : units(needs_[use])) {
        const auto later = next.find(unit);
        stay_[{use, unit}] = later == next.end() ? needs_.size() : later->second;
        next[unit] = use;
      }
  }
  /// plan() for a pass that `backward` follows, whose uses read their parameters `times` times. A unit stays gathered if the
  /// last use here has it (PyTorch: torch/distributed/fsdp/_runtime_utils.py, _post_forward_reshard leaves the root unit;
  /// pytorch/torchtitan: torchtitan/models/llama3/infra/parallelize.py, apply_fsdp), or if fewer than `distance` parameters
  /// are read before its next use (DeepSpeed: deepspeed/runtime/zero/partitioned_param_coordinator.py, __params_to_release).
  void plan_before_backward(Needs needs, const Needs& backward, const std::vector<std::int64_t>& times, std::int64_t distance) {
    require(times.size() == backward.size(), "uses of a backward pass and how often they read are not as many");
    plan(std::move(needs));
    struct Next {
      std::int64_t read;  ///< parameters read from this use to the end of all uses
      std::size_t use;    ///< index in this pass; needs_.size(): in the next pass
    };
    std::map<std::int32_t, Next> nexts;  // by unit
    std::int64_t read = 0;
    for (std::size_t use = backward.size(); use-- > 0;) {
      read += times[use] * parameters(backward[use]);
      for (const std::int32_t unit : units(backward[use])) nexts[unit] = {read, needs_.size()};
    }
    for (std::size_t use = needs_.size(); use-- > 0;) {
      for (const std::int32_t unit : units(needs_[use])) {
        const auto next = nexts.find(unit);
        if (next == nexts.end()) continue;
        if (read - next->second.read < distance || use + 1 == needs_.size()) stay_[{use, unit}] = next->second.use;
      }
      read += parameters(needs_[use]);
      for (const std::int32_t unit : units(needs_[use])) nexts[unit] = {read, use};
    }
  }

  /// Gathers regions that stay until `let_go` whatever uses them: FSDP's root unit (pytorch/pytorch:
  /// torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _lazy_init does not reshard the root after the forward pass).
  void hold(const std::vector<std::int32_t>& regions) {
    for (const std::int32_t r : regions)
      if (const std::int32_t u = unit_of(r); ++users_[u] == 1) reduction_.gather(u);
    for (const std::int32_t r : regions) reduction_.place(unit_of(r));
  }
  void let_go(const std::vector<std::int32_t>& regions) {
    for (const std::int32_t r : regions) leave(unit_of(r));
  }

  /// Begins the next use: gathers its weights and those of the next `ahead` uses.
  void begin() {
    if (!memory_.weights_sharded()) return;
    for (; asked_ < needs_.size() && asked_ <= now_ + ahead_; ++asked_)
      for (const std::int32_t unit : units(needs_[asked_]))
        if (kept_.erase(unit) == 0 && ++users_[unit] == 1) reduction_.gather(unit);
    for (const std::int32_t unit : units(needs_[now_])) reduction_.place(unit);
  }

  /// Ends the use.
  void end() {
    if (!memory_.weights_sharded()) return;
    for (const std::int32_t unit : units(needs_[now_])) {
      // If the next use has already gathered the unit, users_ counts that use.
      if (const auto next = stay_.find({now_, unit}); next != stay_.end() && next->second >= asked_) kept_.insert(unit);
      else leave(unit);
    }
    ++now_;
  }

 private:
  void leave(std::int32_t unit) {
    if (--users_[unit] == 0) memory_.release_weights(unit);
  }
  std::vector<std::int32_t> units(const std::vector<std::int32_t>& use) const {
    std::vector<std::int32_t> found;
    for (const std::int32_t region : use) found.push_back(unit_of(region));
    return found;
  }
  std::int64_t parameters(const std::vector<std::int32_t>& use) const {
    std::int64_t sum = 0;
    for (const std::int32_t unit : units(use)) sum += memory_.params().units[static_cast<std::size_t>(unit)].elements;
    return sum;
  }
  std::int32_t unit_of(std::int32_t region) const { return memory_.params().regions[static_cast<std::size_t>(region)].unit; }

  StageMemory& memory_;
  GradientReduction& reduction_;
  std::size_t ahead_;
  Needs needs_;
  std::size_t now_ = 0, asked_ = 0;
  std::map<std::int32_t, std::int32_t> users_;
  std::map<std::pair<std::size_t, std::int32_t>, std::size_t> stay_;  ///< (use of this pass, unit): the unit's next use
  std::set<std::int32_t> kept_;  ///< units that stay for their next use; each counts in users_
};

}  // namespace tandem::lowering
