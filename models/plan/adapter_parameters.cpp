#include "models/plan/active_parameters.hpp"

namespace tandem {
namespace {

/// Rows and columns of a matrix.
struct MatrixSize {
  std::int64_t out, in;
};

/// No columns: layers of this kind have no such matrix.
MatrixSize size_of(const ModelSpec& m, LayerKind kind, std::string_view target) {
  const AttentionHeads h = m.attention_heads(kind.mixer);
  const std::int64_t context = h.queries * h.value_dim, halves = m.gated() ? 2 : 1;
  if (target == "qkv") {
    const std::int64_t keys = h.keys * (h.head_dim + (h.tied ? 0 : h.value_dim)), gate = m.attention_gate ? context : 0;
    return {gate + h.queries * h.head_dim + keys, m.hidden_size};
  }
  if (target == "proj") return {m.hidden_size, context};
  const bool routed = target.starts_with("experts.");
  if (routed && !kind.has_experts()) return {0, 0};
  const std::int64_t ffn = routed ? m.moe.ffn_hidden_size : kind.has_experts() ? m.moe.shared_ffn() : m.ffn_hidden_size;
  if (ffn == 0) return {0, 0};
  return target.ends_with("fc1") ? MatrixSize{halves * ffn, m.hidden_size} : MatrixSize{m.hidden_size, ffn};
}

}  // namespace

std::int64_t adapter_parameters(const ModelSpec& m, const AdapterSpec& a) {
  std::int64_t all = 0;
  for (std::int64_t l = 0; a.here() && l < m.num_layers; ++l)
    for (const std::string& target : a.targets) {
      const MatrixSize size = size_of(m, m.kind(l), target);
      all += (target.starts_with("experts.") ? m.moe.num_experts : 1) * a.rank * (size.in + size.out);
    }
  return all;
}

std::int64_t trained_in_adapters(const Plan& plan) { return adapter_parameters(plan.model, plan.training.lora); }

}  // namespace tandem
