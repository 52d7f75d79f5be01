#include "models/graph/model_flops.hpp"

#include <cmath>

namespace tandem {
namespace {

/// Whether the operation is a forward matrix product: y = x W^T, also of experts, or a product of attention's forward pass.
bool forward_product(const Op& op) {
  return std::visit(overloaded{[](const MatMul& o) { return o.trans_b && !o.trans_a; },
                               [](const GroupedMatMul& o) { return o.trans_b; }, [](const AttentionScores&) { return true; },
                               [](const AttentionContext&) { return true; }, [](const FlashAttention&) { return true; },
                               [](const IndexTopK&) { return true; }, [](const IndexBlocks&) { return true; },
                               [](const Recurrence&) { return true; },
                               [](const auto&) { return false; }},
                    op);
}

bool of_experts(const Op& op) { return std::holds_alternative<GroupedMatMul>(op) || std::holds_alternative<GroupedWeightGrad>(op); }

/// Gradients of both products of the forward pass are two products each.
Flops twice_forward(const FlashAttentionBackward& o) {
  return Flops(2 * matrix_flops(FlashAttention{o.dims, o.dropout, o.alibi, o.ring_step}).count());
}

}  // namespace

ExpertRows expert_rows(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* router = std::get_if<TopKRouter>(&task.op))
        return {router->dims.tokens * router->dims.top_k, router->dims.rows()};
  return {};
}

Flops model_flops(const Task& task, Phase phase, const ExpertRows& rows) {
  const bool again = phase != Phase::forward && forward_product(task.op) && !task.repeats_none;
  if (phase == Phase::recompute || again) return Flops(0);
  const Flops all = matrix_flops(task.op);
  if (of_experts(task.op) && rows.asked < rows.room)
    return Flops(std::llround(static_cast<double>(all.count()) * static_cast<double>(rows.asked) / static_cast<double>(rows.room)));
  // Chunked kernels of a recurrence do more FLOPs than the recurrence needs.
  if (const auto* recurrence = std::get_if<Recurrence>(&task.op)) return Flops(recurrence->dims.needed_flops());
  if (const auto* recurrence = std::get_if<RecurrenceBackward>(&task.op)) return Flops(2 * recurrence->dims.needed_flops());
  // Backward kernels recompute: scores in flash attention, the target's probabilities, an indexer's scores.
  if (const auto* flash = std::get_if<FlashAttentionBackward>(&task.op)) return twice_forward(*flash);
  if (std::holds_alternative<IndexTarget>(task.op) || std::holds_alternative<Muon>(task.op)) return Flops(0);
  if (const auto* o = std::get_if<IndexBlocksBackward>(&task.op))
    return Flops(o->index().over_chosen(4 * o->index_heads * o->index_dim));
  return std::holds_alternative<IndexTopKBackward>(task.op) ? Flops(all.count() / 3 * 2) : all;
}

}  // namespace tandem
