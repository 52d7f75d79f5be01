#pragma once
// ZeRO 3: weights are gathered before they are used and dropped afterwards, some layers ahead of the computation.

#include <map>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/lowering/stage/gradient_reduction.hpp"

namespace tandem::lowering {

class WeightGather {
 public:
  /// Regions that are used together, in the order of use.
  using Needs = std::vector<std::vector<std::int32_t>>;

  /// `ahead`: uses whose weights are on the way while one computes.
  WeightGather(StageMemory& memory, GradientReduction& reduction, std::int64_t ahead)
      : memory_(memory), reduction_(reduction), ahead_(static_cast<std::size_t>(ahead)) {}

  /// What the following pass will use. Without ZeRO 3 nothing of this does anything.
  void plan(Needs needs) {
    if (!memory_.weights_sharded()) return;
    needs_ = std::move(needs);
    stay_.clear();
    now_ = asked_ = 0;
  }
  /// The same, and the pass behind it uses the same: everything stays (arXiv 2211.05953, of breadth-first schedules; pipelines of
  /// PyTorch gather around a run of passes, too: torch/distributed/pipelining/schedules.py, _add_unshard_reshard).
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
  /// The same, and the pass behind it is `backward`, whose uses read their parameters so many `times`. What is used again stays where
  /// it is of the last use here (PyTorch: torch/distributed/fsdp/_runtime_utils.py, _post_forward_reshard leaves the root unit;
  /// pytorch/torchtitan: torchtitan/models/llama3/infra/parallelize.py, apply_fsdp), or where less than `distance` parameters are
  /// read between (DeepSpeed: deepspeed/runtime/zero/partitioned_param_coordinator.py, __params_to_release).
  void plan_before_backward(Needs needs, const Needs& backward, const std::vector<std::int64_t>& times, std::int64_t distance) {
    require(times.size() == backward.size(), "uses of a backward pass and how often they read are not as many");
    plan(std::move(needs));
    struct Next {
      std::int64_t read;  ///< parameters from the last of all uses back to this one
      std::size_t use;    ///< of this pass, or as many as it has
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
      for (const std::int32_t unit : units(needs_[asked_]))
        if (kept_.erase(unit) == 0 && ++users_[unit] == 1) reduction_.gather(unit);
    for (const std::int32_t unit : units(needs_[now_])) reduction_.place(unit);
  }

  /// The use has ended.
  void end() {
    if (!memory_.weights_sharded()) return;
    for (const std::int32_t unit : units(needs_[now_])) {
      // Where its next use has asked for it already, it is among users_ for that one.
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
  std::map<std::pair<std::size_t, std::int32_t>, std::size_t> stay_;  ///< use of this pass, unit: its next use
  std::set<std::int32_t> kept_;  ///< for the next use, which need not gather it: each counts as one of users_
};

}  // namespace tandem::lowering
