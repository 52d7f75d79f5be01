#pragma once
// One computation as a queue gets it.

#include <cstddef>
#include <cstdint>
#include <optional>
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
  std::span<const std::int32_t> rows = {};  ///< the numbers of counted_rows' operand, in the host's memory; empty: nobody has read them
};

/// Which operand says how many rows an operation's products have; nullopt: the operation itself does.
inline std::optional<std::size_t> counted_rows(const Op& op) {
  constexpr std::size_t kCounts = 2;
  const auto* product = std::get_if<GroupedMatMul>(&op);
  const auto* gradient = std::get_if<GroupedWeightGrad>(&op);
  const bool counted = (product != nullptr && product->ragged) || (gradient != nullptr && gradient->ragged);
  return counted ? std::optional(kCounts) : std::nullopt;
}

}  // namespace tandem::exec
