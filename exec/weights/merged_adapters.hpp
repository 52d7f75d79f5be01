#pragma once
// Weights of a checkpoint with low-rank adapters (LoRA), as those of a model without them.

#include <memory>

#include "exec/state/saved_state.hpp"
#include "models/plan/model_spec.hpp"

namespace tandem::exec {

/// The weights of `state` with W + scale B A in place of every matrix W that has an adapter. Sums are in fp64 and given in fp32, or in
/// fp64 if W is. Where parts of W have adapters of their own, each is added to its rows. Adapters come from the optimizer's masters where the checkpoint has them. Holds one matrix' adapters at a time. `state` must
/// outlive it.
std::unique_ptr<SavedState> merge_adapters(const SavedState& state, const ModelSpec& model, double scale);

}  // namespace tandem::exec
