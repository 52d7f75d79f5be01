#pragma once
// The operands every computation takes, by size: for whoever calls a backend without a task graph.

#include <cstdint>
#include <vector>

#include "models/ops/op.hpp"

namespace tandem::exec {

struct OperandSize {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
  int same_as_input = -1;   ///< outputs only: the input it overwrites, -1 for memory of its own
  int same_as_output = -1;  ///< outputs only: the earlier output that is the same tensor
};

struct OperandSizes {
  std::vector<OperandSize> inputs, outputs;  ///< in the order models/ops/op.hpp documents
};

/// Operands of one computation whose activations and weights are `dtype`. Throws ContractError for communication and
/// HostCopy. Total: an alternative of Op without a case does not compile.
OperandSizes operand_sizes(const Op& op, DType dtype);

}  // namespace tandem::exec
