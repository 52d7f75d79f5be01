#pragma once
// The fusion set of a plan, as the lowering reads it.

#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// A fusion set, and what the plan says besides.
struct Fusion : FusionSet {
  bool deterministic_attention = false;  ///< by a kernel that gives the same bits again
  bool tensors_filled = false;           ///< before a task writes a tensor of its own, one fills it
};

/// The plan's set, with the attention kernel that the plan names.
Fusion fusion_of(const TrainingSpec& training);

/// In which type a set's optimizer holds the masters of `types`, which differ from the weights: 16 bits of any kind where only what
/// the weights lack is kept.
DType held_master(const FusionSet& set, const DTypes& types);

}  // namespace tandem::lowering
