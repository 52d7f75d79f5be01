#pragma once
// Operand sizes of every computation, for callers of a backend without a task graph.

#include <cstdint>
#include <vector>

#include "models/ops/op.hpp"

namespace tandem::exec {

struct OperandSize {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
  int same_as_input = -1;   ///< outputs only: index of the input that it overwrites; -1: has its own memory
  int same_as_output = -1;  ///< outputs only: index of the earlier output that is the same tensor
};

struct OperandSizes {
  std::vector<OperandSize> inputs, outputs;  ///< in the order of models/ops/op.hpp
};

/// Operands of a computation with activations and weights of type `dtype`. Throws ContractError for communication and HostCopy. An
/// alternative of Op without a case does not compile.
OperandSizes operand_sizes(const Op& op, DType dtype);

}  // namespace tandem::exec
