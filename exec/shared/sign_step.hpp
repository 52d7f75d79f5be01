#pragma once
// The update of parameters that move by a step of their own (Param::sign_step).

#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// What is taken off a weight: `step` with the sign of what stands in the place of its gradient.
template <class A>
TANDEM_HD inline A step_against(double step, A gradient) {
  return gradient > A{0} ? static_cast<A>(step) : gradient < A{0} ? -static_cast<A>(step) : A{0};
}

}  // namespace tandem::exec
