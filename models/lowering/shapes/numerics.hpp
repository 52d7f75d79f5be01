#pragma once
// Types of tensors that may need more precision than activations.

#include "models/plan/plan.hpp"

namespace tandem::lowering {

struct Numerics {
  DType statistics;          ///< norms' mean and 1/std; flash attention's log-sum-exp
  DType loss_sums;           ///< maxima and sums of exponentials over a vocabulary
  DType router;              ///< router logits, probabilities, weights and their gradients
  DType chunk_gradients;     ///< where chunks of a loss collect the gradients of their states
  DType parameter_gradient;  ///< one micro-batch's gradient before it is accumulated
};

/// `compute`: the activations' type. `gradients`: the type in which a backward pass
/// writes gradients. A class that the stack does not widen has the activations' type.
inline Numerics numerics_of(const WideTensors& wide, DType compute, DType gradients) {
  const bool narrow = bits(compute) < 32;
  const auto type = [&](bool is_wide) { return narrow && is_wide ? DType::fp32 : compute; };
  return {type(wide.statistics), type(wide.loss_sums), type(wide.router), type(wide.chunk_gradients),
          narrow && wide.parameter_gradient ? gradients : compute};
}

}  // namespace tandem::lowering
