#pragma once
// One computation as a backend's queue receives it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "exec/backend/step_table.hpp"
#include "exec/backend/tensor.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Everything besides its operands that an operation may depend on. It is the same in every step.
struct KernelContext {
  std::uint64_t seed = 0;
  std::int32_t layer = -1;
  std::int64_t first_sequence = 0;     ///< first sequence of the micro-batch, relative to StepTable::first_sample
  std::int64_t seq_length = 0;         ///< tokens of a whole sequence, in the encoder or decoder that holds the layer
  std::int32_t tensor_rank = 0, tensor_size = 1;
  std::int32_t expert_tensor_rank = 0;  ///< rank among those that shard the weights of the same experts
  std::int32_t expert_rank = 0;         ///< rank among those that have different experts
  std::int32_t context_rank = 0, context_size = 1;
  StepTable* table = nullptr;          ///< the rank's step table, in the backend's memory
  /// [sequence of the micro-batch, seq_length], in the backend's memory: the first position of the document that holds each position.
  const std::int32_t* documents = nullptr;  ///< read only by operations whose dimensions say so
};

/// Operands are in the order of models/ops/op.hpp. The operation, and what KernelContext points to, must live until the queue has
/// performed the operation. Everything else may be freed when Queue::run returns.
struct Launch {
  const Op& op;
  DType compute;
  std::span<const Tensor> in, out;
  const KernelContext& context;
  std::span<const std::int32_t> rows = {};  ///< host copy of the operand that counted_rows() names; empty: the host has not read it
};

/// Index of the input that holds the row count of each expert; nullopt: the operation itself fixes the number of rows.
inline std::optional<std::size_t> counted_rows(const Op& op) {
  constexpr std::size_t kCounts = 2;
  const auto* product = std::get_if<GroupedMatMul>(&op);
  const auto* gradient = std::get_if<GroupedWeightGrad>(&op);
  const bool counted = (product != nullptr && product->ragged) || (gradient != nullptr && gradient->ragged);
  return counted ? std::optional(kCounts) : std::nullopt;
}

}  // namespace tandem::exec
