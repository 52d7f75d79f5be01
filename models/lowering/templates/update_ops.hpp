#pragma once
// Optimizer states and operations, for templates, for a stage's memory, and for estimates without either.

#include <vector>

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// An optimizer state: one element for every parameter that a rank updates.
struct OptimizerState {
  const char* name;
  DType type;
};
/// The moments, then a master copy if the rank stores `weights` of another type.
std::vector<OptimizerState> optimizer_states(const OptimizerSpec& o, DType weights, const Shapes& s);

/// AdamW over `elements` elements. `weights`: type in which the rank stores weights.
AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements);
/// The AdamW or SGD operation for all of a rank's parameters. Throws ContractError for LAMB and LANS, which take several.
Op update_of(const UpdateSpec& u, const DTypes& d);

/// This rank's part of the norm, and the sum over the norm group.
GradNorm own_norm(const UpdateSpec& u, const DTypes& d);
Collective norm_sum(const UpdateSpec& u);
/// Computes the clip coefficient from the summed norm.
ClipCoefficient clip_of(const UpdateSpec& u);

}  // namespace tandem::lowering
