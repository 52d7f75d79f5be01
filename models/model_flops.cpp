#include "models/model_flops.hpp"

namespace tandem {
namespace {

/// Whether the operation is a product of a forward pass: y = x W^T, of experts too, or a product of attention's forward pass.
bool forward_product(const Op& op) {
  return std::visit(overloaded{[](const MatMul& o) { return o.trans_b && !o.trans_a; },
                               [](const GroupedMatMul& o) { return o.trans_b; }, [](const AttentionScores&) { return true; },
                               [](const AttentionContext&) { return true; }, [](const FlashAttention&) { return true; },
                               [](const auto&) { return false; }},
                    op);
}

}  // namespace

Flops model_flops(const Task& task, Phase phase) {
  if (phase == Phase::recompute || (phase != Phase::forward && forward_product(task.op))) return Flops(0);
  const Flops all = matrix_flops(task.op);
  return std::holds_alternative<FlashAttentionBackward>(task.op) ? Flops(all.count() / 5 * 4) : all;
}

}  // namespace tandem
