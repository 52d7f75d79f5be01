#pragma once
// FLOPs of a plan's model in closed form, to set beside those of a model that the plan only comes near.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem::import {

/// FLOPs of matrix products, of a token's forward pass, a mean over a causal sequence of `sequence` tokens: a decoder's weights that
/// the token is multiplied with, twice each, and attention to itself and what is before it. Not for encoders (bert, t5).
double forward_flops(const ModelSpec& model, std::int64_t sequence);
/// The same of its forward and backward pass: three times as many, but for an indexer, whose gradients end in it.
double training_flops(const ModelSpec& model, std::int64_t sequence);

/// Whether forward_flops counts the family.
constexpr bool has_forward_flops(Family family) { return family != Family::bert && family != Family::t5; }

}  // namespace tandem::import
