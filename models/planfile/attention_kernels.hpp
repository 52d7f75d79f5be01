#pragma once
// Which kernels compute a plan's attention without a score matrix: the plan's, or Tandem's own where libraries have none.

#include <set>
#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

struct AttentionKernels {
  std::set<AttentionKernel> forward, backward;  ///< empty if attention keeps its scores
  std::string_view why_own;                     ///< why some attention has Tandem's own kernel; empty if none has

  bool has(AttentionKernel k) const { return forward.contains(k) || backward.contains(k); }
  /// Whether every attention has Tandem's own kernel in both directions, as libraries have none.
  bool only_own() const;
};

/// The kernels of a plan that names `named` in training.attention_kernel and has every other field filled in.
AttentionKernels attention_kernels(const Plan& plan, AttentionKernel named);
/// The same for the kernel that the plan names.
inline AttentionKernels attention_kernels(const Plan& plan) { return attention_kernels(plan, plan.training.attention_kernel); }

}  // namespace tandem
