#pragma once
// Two saved states as one: a model's weights and adapters beside them.

#include <memory>

#include "exec/state/saved_state.hpp"

namespace tandem::exec {

/// The tensors of `first`, then those of `second`; facts and file are those of `first`.
std::unique_ptr<SavedState> join_states(std::unique_ptr<SavedState> first, std::unique_ptr<SavedState> second);

}  // namespace tandem::exec
