#pragma once
// Optimizer states and operations, for templates, for a stage's memory, and for estimates without either.

#include <vector>

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// An optimizer state: one element for every parameter that a rank updates. The matrices of Muon have no second moment.
struct OptimizerState {
  const char* name;
  DType type;
  bool squared = false;  ///< a second moment
};
/// The moments, then a master copy if the rank stores `weights` of another type.
std::vector<OptimizerState> optimizer_states(const OptimizerSpec& o, DType weights, const Shapes& s);

/// Elements of a state.
std::int64_t elements_of(const OptimizerState& state, const UpdateSpec& u);

/// AdamW over `elements` elements. `weights`: type in which the rank stores weights.
AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements);
/// The operations for all of a rank's parameters: AdamW or SGD, or AdamW and Muon for each shape of matrices. Throws ContractError for
/// LAMB and LANS, whose operations need a norm between them.
std::vector<Op> updates_of(const UpdateSpec& u, const DTypes& d);

/// This rank's part of the norm, and the sum over the norm group.
GradNorm own_norm(const UpdateSpec& u, const DTypes& d);
Collective norm_sum(const UpdateSpec& u);
/// Computes the clip coefficient from the summed norm.
ClipCoefficient clip_of(const UpdateSpec& u);

}  // namespace tandem::lowering
