#pragma once
// The numeric contract of a plan: in which type each class of tensor is that activations' type may be too narrow for.

#include "models/plan/plan.hpp"

namespace tandem::lowering {

struct Numerics {
  DType statistics;          ///< of norms (mean, 1/std), and of flash attention (log of the sum of exponentials)
  DType loss_sums;           ///< of a vocabulary: maxima, sums of exponentials
  DType router;              ///< logits, probabilities, weights and their gradients
  DType parameter_gradient;  ///< of a micro-batch on its way to those before it
};

/// With activations in `compute` and gradients that a backward pass writes in `gradients`. What the stack does not keep wide is as
/// wide as activations.
inline Numerics numerics_of(const WideTensors& wide, DType compute, DType gradients) {
  const bool narrow = bits(compute) < 32;
  const auto type = [&](bool is_wide) { return narrow && is_wide ? DType::fp32 : compute; };
  return {type(wide.statistics), type(wide.loss_sums), type(wide.router), narrow && wide.parameter_gradient ? gradients : compute};
}

}  // namespace tandem::lowering
