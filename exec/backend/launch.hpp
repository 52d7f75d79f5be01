#pragma once
// One computation as a queue gets it.

#include <cstdint>
#include <span>

#include "exec/backend/step_table.hpp"
#include "exec/backend/tensor.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Everything an operation may depend on besides its operands; the same in every step.
struct KernelContext {
  std::uint64_t seed = 0;
  std::int32_t layer = -1;
  std::int64_t first_sequence = 0;     ///< of the micro-batch, counted from StepTable::first_sample
  std::int64_t seq_length = 0;         ///< tokens of a whole sequence, of the stack that the layer is in
  std::int32_t tensor_rank = 0, tensor_size = 1;
  std::int32_t expert_tensor_rank = 0;  ///< among the ranks that share the matrices of the same experts
  std::int32_t context_rank = 0, context_size = 1;
  StepTable* table = nullptr;          ///< of the rank, in the backend's memory
};

/// Operands are in the order models/ops/op.hpp documents. The operation and what KernelContext points to must stay until the queue
/// has performed it; all else may go when Queue::run returns.
struct Launch {
  const Op& op;
  DType compute;
  std::span<const Tensor> in, out;
  const KernelContext& context;
};

}  // namespace tandem::exec
