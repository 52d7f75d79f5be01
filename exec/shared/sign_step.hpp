#pragma once
// Update of parameters that move by a fixed step (Param::sign_step), such as the router's bias.

#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// The amount to subtract from a weight: `step` with the sign of `gradient`, or 0 if that is 0.
template <class A>
TANDEM_HD inline A step_against(double step, A gradient) {
  return gradient > A{0} ? static_cast<A>(step) : gradient < A{0} ? -static_cast<A>(step) : A{0};
}

}  // namespace tandem::exec
