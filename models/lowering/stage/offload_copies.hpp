#pragma once
// Copies of tensors that a block keeps for its backward pass, to host memory and back (parallel.offload.activations).

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// Copies the tensors in slot "offloaded" of `forward`, a block's forward pass, one task each. Nothing if it writes none.
std::optional<Template> kept_copy(const Shapes& s, const Template& forward, bool to_host);

/// Copies a block's input. Slots: x.
Template input_copy(const Shapes& s, bool to_host);

}  // namespace tandem::lowering
