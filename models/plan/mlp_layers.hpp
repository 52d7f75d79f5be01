#pragma once
// Layers whose feed-forward part is a plain MLP.

#include "models/plan/plan.hpp"

namespace tandem {

/// Whether any layer has an MLP, the only reader of `model.ffn_hidden_size`. False if every layer has experts or none.
bool has_mlp_layer(const ModelSpec& model);

}  // namespace tandem
