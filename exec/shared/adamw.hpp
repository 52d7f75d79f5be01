#pragma once
// AdamW for one element, operation by operation as in PyTorch (decoupled weight decay, Loshchilov and Hutter, arXiv 1711.05101).

#include <cmath>

#include "exec/backend/step_table.hpp"
#include "exec/shared/hd.hpp"
#include "models/ops/update.hpp"

namespace tandem::exec {

template <class T>
struct AdamWStep {
  T beta1, beta2, rest1, rest2;  ///< rests: 1 - beta, rounded once; 1 - beta in fp32 would be wrong by 1.3e-5 of it for 0.999
  T epsilon, clip, decay, step_size, sqrt_correction2;

  TANDEM_HD AdamWStep(const AdamW& op, const StepTable& s)
      : beta1(static_cast<T>(op.beta1)),
        beta2(static_cast<T>(op.beta2)),
        rest1(static_cast<T>(1 - op.beta1)),
        rest2(static_cast<T>(1 - op.beta2)),
        epsilon(static_cast<T>(op.epsilon)),
        clip(static_cast<T>(s.clip_coefficient)),
        decay(static_cast<T>(1 - s.learning_rate * op.weight_decay)),
        step_size(static_cast<T>(s.learning_rate / s.bias_correction1)),
        sqrt_correction2(static_cast<T>(std::sqrt(s.bias_correction2))) {}
};

template <class T>
struct AdamWElement {
  T weight, exp_avg, exp_avg_sq;
};

/// `keep`: the factor that weight decay leaves on a weight, 1 - learning rate * decay.
template <class T>
TANDEM_HD inline AdamWElement<T> updated(const AdamWStep<T>& step, T keep, T gradient, const AdamWElement<T>& at) {
  const T g = gradient * step.clip;
  const T m = step.beta1 * at.exp_avg + step.rest1 * g;
  const T v = step.beta2 * at.exp_avg_sq + step.rest2 * g * g;
  const T denominator = std::sqrt(v) / step.sqrt_correction2 + step.epsilon;
  return {at.weight * keep - step.step_size * (m / denominator), m, v};
}

}  // namespace tandem::exec
