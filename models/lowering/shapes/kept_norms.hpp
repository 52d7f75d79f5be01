#pragma once
// Which norms of a block selective recomputation runs again.

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

/// Whether the output of the norm before an MLP or experts is kept. A recomputed MLP runs its norm again and keeps the residual, because
/// the norm is part of its first product's module (NVIDIA/Megatron-LM d98e8a64: megatron/core/models/gpt/gpt_layer_specs.py, linear_fc1
/// of a dense layer is TELayerNormColumnParallelLinear and pre_mlp_layernorm IdentityOp). Experts keep their input.
inline bool keeps_second_norm(const Shapes& s) { return s.keep.norms && (s.has_experts() || s.keep.fc1); }

/// The same of the norms of latent attention's compressed rows, which the modules of its up-projections contain
/// (megatron/core/transformer/multi_latent_attention.py, qkv_up_checkpoint).
inline bool keeps_latent_norms(const Shapes& s) { return s.keep.norms && s.keep.up; }

}  // namespace tandem::lowering
