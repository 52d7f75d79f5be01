#pragma once
// FLOPs of a plan's model in closed form, to compare with a model that the plan only approximates.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// Matrix-product FLOPs of a token's forward pass, averaged over a causal sequence of `sequence` tokens: twice the decoder weights
/// it is multiplied with, plus attention to itself and earlier tokens. Not for encoders (bert, t5).
double forward_flops(const ModelSpec& model, std::int64_t sequence);
/// The share of one layer, or of a multi-token prediction module's layer.
double layer_flops(const ModelSpec& model, std::int64_t layer, std::int64_t sequence);
/// FLOPs of forward and backward pass: three times as many, except for an indexer, at which gradients stop.
double training_flops(const ModelSpec& model, std::int64_t sequence);

/// True if forward_flops supports the family.
constexpr bool has_forward_flops(Family family) { return family != Family::bert && family != Family::t5; }

}  // namespace tandem
