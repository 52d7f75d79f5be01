#pragma once
// The computations to time: sizes of small models, in every form that training uses.

#include <vector>

#include "models/ops/op.hpp"

namespace tandem::exec {

/// At least one operation of every kind. An alternative of Op without a grid does not compile.
std::vector<Op> measured_operations(bool quick, DType dtype);

}  // namespace tandem::exec
