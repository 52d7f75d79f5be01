#pragma once
// The plan's fusion set with the plan's own settings applied.

#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// A fusion set and two further settings of the plan.
struct Fusion : FusionSet {
  bool deterministic_attention = false;  ///< attention's kernel is bitwise reproducible
  bool tensors_filled = false;           ///< each new tensor is filled before a task writes it
};

/// The plan's fusion set, with the attention kernel that the plan names.
Fusion fusion_of(const TrainingSpec& training);

/// Type of the optimizer's master weights. A set may store only the 16 low
/// bits that bf16 weights lack of fp32 masters; bf16 stands for these.
DType held_master(const FusionSet& set, const DTypes& types);

}  // namespace tandem::lowering
