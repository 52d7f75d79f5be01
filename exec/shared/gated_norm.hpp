#pragma once
// Elements of an RMS norm with a SiLU gate behind it, y = w norm(x) silu(g), or ahead of it, y = w norm(x silu(g)).

#include "exec/shared/activations.hpp"

namespace tandem::exec {

/// The number that the norm reads.
template <bool gate_first, class T>
TANDEM_HD inline T normed(T x, T gate) {
  if constexpr (gate_first) return x * Silu::value(gate);
  return x;
}

/// The factor of the weight and the norm: the gate, unless the norm has it.
template <bool gate_first, class T>
TANDEM_HD inline T behind_norm(T gate) {
  if constexpr (gate_first) return T{1};
  return Silu::value(gate);
}

/// Gradients of x and the gate.
template <class T>
struct GatedNormGradient {
  T dx, dgate;
};

/// y = w norm(x) silu(g): with a = dy w silu(g), dx = r (a - xhat mean(a xhat)), dg = dy w xhat silu'(g).
/// y = w norm(u), u = x silu(g): du = r (dy w - uhat mean(dy w uhat)), dx = du silu(g), dg = du x silu'(g).
/// `up`: dy w; `r`: 1/rms; `mean`: of the products above, over the norm's columns.
template <bool gate_first, class T>
TANDEM_HD inline GatedNormGradient<T> gated_norm_gradient(T x, T gate, T up, T r, T mean) {
  const T hat = normed<gate_first>(x, gate) * r;
  const T d = r * (up * behind_norm<gate_first>(gate) - hat * mean), slope = Silu::derivative(gate);
  return {gate_first ? d * Silu::value(gate) : d, (gate_first ? d * x : up * hat) * slope};
}

}  // namespace tandem::exec
