#pragma once
// Which operations read where documents begin.

#include <type_traits>

#include "models/ops/op.hpp"
#include "models/ops/simulated_only.hpp"

namespace tandem::exec {

/// True if an operation reads KernelContext::documents. What others of an attention compute follows from what these leave out.
inline bool keeps_documents(const Op& op) {
  return std::visit(
      [](const auto& o) {
        using Kind = std::decay_t<decltype(o)>;
        if constexpr (kOneOf<Kind, AttentionSoftmax, FlashAttention, FlashAttentionBackward, Rotary>) return o.dims.documents;
        else if constexpr (kOneOf<Kind, PositionDropout, PositionDropoutBackward>) return o.documents && o.learned;
        else return false;
      },
      op);
}

}  // namespace tandem::exec
