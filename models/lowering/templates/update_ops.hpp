#pragma once
// What an optimizer keeps and computes: the same for its templates, for a stage's memory, and for estimates without either.

#include <vector>

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// A tensor with an element for every parameter that a rank updates.
struct OptimizerState {
  const char* name;
  DType type;
};
/// Moments, then a master copy where the rank keeps `weights` of another type.
std::vector<OptimizerState> optimizer_states(const OptimizerSpec& o, DType weights, const Shapes& s);

/// Of so many elements, whose weights the rank keeps in that type.
AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements);
/// What updates all that a rank updates by AdamW or SGD. LAMB and LANS take several operations: ContractError.
Op update_of(const UpdateSpec& u, const DTypes& d);

/// The rank's part of the norm, and its sum over those that have the others.
GradNorm own_norm(const UpdateSpec& u, const DTypes& d);
Collective norm_sum(const UpdateSpec& u);
/// What the sum makes of the update.
ClipCoefficient clip_of(const UpdateSpec& u);

}  // namespace tandem::lowering
