#pragma once
// The weights of a checkpoint without the states of its optimizer.

#include <memory>

#include "exec/state/saved_state.hpp"

namespace tandem::exec {

/// The parameters of `state` as load_weights() takes them: the weights, or the optimizer's masters where it has them and `type` is
/// not that of the weights.
std::unique_ptr<SavedState> weights_of(std::unique_ptr<SavedState> state, DType type);

}  // namespace tandem::exec
