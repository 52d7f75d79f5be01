#include "models/ops/op.hpp"

#include <cmath>

#include "models/ops/collective_bytes.hpp"
#include "models/ops/simulated_only.hpp"

namespace tandem {
namespace {

constexpr std::string_view kKindNames[kOpKinds] = {
      "matmul", "dequantize", "bias_grad", "layernorm", "layernorm_backward", "pointwise", "pointwise_backward",
      "gated_pointwise", "gated_pointwise_backward", "soft_cap", "soft_cap_backward", "row_gate", "row_gate_backward", "latent_norm", "latent_norm_backward", "elementwise", "row_reduce", "attention_scores",
      "attention_softmax", "attention_context", "attention_context_backward", "attention_softmax_backward",
      "attention_scores_backward", "flash_attention", "flash_attention_backward", "split_kv", "merge_kv", "pack_columns",
      "unpack_columns", "order_rows", "take_part", "place_part", "take_columns", "add_columns", "head_norm", "head_norm_backward", "row_norm_sums", "row_norm", "row_norm_dots", "row_norm_backward", "latent_heads", "latent_heads_backward", "index_topk", "index_target", "index_topk_backward", "index_blocks", "index_blocks_backward",
      "short_conv", "short_conv_backward", "recurrence", "recurrence_backward", "gated_norm", "gated_norm_backward", "sigmoid_gate", "sigmoid_gate_backward", "rotary", "bias_dropout_add", "bias_dropout_add_backward", "bias_dropout_add_norm", "embedding", "embedding_backward",
      "position_dropout", "position_dropout_backward", "take_first", "take_first_backward", "vocab_max", "vocab_exp_sum",
      "cross_entropy", "accumulate", "fill", "top_k_router", "top_k_router_backward", "balance_grad", "expert_slots", "moe_dispatch", "moe_dispatch_backward",
      "moe_combine", "moe_combine_backward", "grouped_matmul", "grouped_weight_grad", "grouped_bias", "grouped_bias_grad", "grad_norm", "clip_coefficient", "adamw",
      "sgd", "muon", "tensor_norms", "layerwise_moments", "layerwise_apply", "collective", "send", "recv", "host_copy"};
static_assert(!kKindNames[kOpKinds - 1].empty(), "an operation has no name");

}  // namespace

double BalanceGrad::scale() const {
  const double most = static_cast<double>(dims.tokens * micro_batches) * static_cast<double>(dims.top_k * dims.experts);
  return std::ldexp(1.0, -static_cast<int>(std::ceil(std::log2(most))));
}

std::string_view kind_name(const Op& op) { return kKindNames[op.index()]; }

Bytes payload(const Op& op) {
  if (const auto* c = std::get_if<Collective>(&op)) return payload(*c);
  if (const auto* s = std::get_if<Send>(&op)) return bytes_of(s->dtype, s->elements);
  if (const auto* r = std::get_if<Recv>(&op)) return bytes_of(r->dtype, r->elements);
  return Bytes(0);
}

bool is_communication(const Op& op) {
  return std::holds_alternative<Collective>(op) || std::holds_alternative<Send>(op) || std::holds_alternative<Recv>(op);
}

bool is_simulated_only(const Op& op) {
  return std::visit(
      []<class O>(const O& o) {
        if constexpr (kOneOf<O, BiasDropoutAdd, BiasDropoutAddBackward>) return drops_expert_rows(o.site);
        else if constexpr (kOneOf<O, Dequantize>) return o.source == DType::nf4_double;
        else return SimulatedOnly<O>;
      },
      op);
}

}  // namespace tandem
