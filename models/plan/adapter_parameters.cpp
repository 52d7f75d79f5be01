#include "models/plan/active_parameters.hpp"
#include "models/plan/adapter_parts.hpp"

namespace tandem {
namespace {

std::int64_t qkv_rows(const ModelSpec& m, const AttentionHeads& h) {
  const std::int64_t gate = m.attention_gate ? h.queries * h.value_dim : 0;
  return gate + h.queries * h.head_dim + h.keys * (h.head_dim + (h.tied ? 0 : h.value_dim));
}

/// A gate beside queries, keys and values is in no part.
MatrixSize part_of(const ModelSpec& m, LayerKind kind, const AdapterPart& part) {
  const MatrixSize whole = target_size(m, kind, part.matrix);
  const PartColumns columns = part_columns(m, kind, part.part);
  if (columns.width == 0) return {};
  const std::int64_t groups = part.matrix == "qkv" ? m.attention_heads(kind.mixer).keys : whole.out / columns.group;
  return {groups * columns.width, whole.in};
}

}  // namespace

MatrixSize target_size(const ModelSpec& m, LayerKind kind, std::string_view target) {
  for (const AdapterPart& part : kAdapterParts)
    if (part.target == target) return part_of(m, kind, part);
  const AttentionHeads h = m.attention_heads(kind.mixer);
  if (target == "qkv") return {qkv_rows(m, h), m.hidden_size};
  if (target == "proj") return {m.hidden_size, h.queries * h.value_dim};
  const bool routed = target.starts_with("experts.");
  if (routed && !kind.has_experts()) return {};
  const std::int64_t ffn = routed ? m.moe.ffn_hidden_size : kind.has_experts() ? m.moe.shared_ffn() : m.ffn_hidden_size;
  if (ffn == 0) return {};
  return target.ends_with("fc1") ? MatrixSize{(m.gated() ? 2 : 1) * ffn, m.hidden_size} : MatrixSize{m.hidden_size, ffn};
}

std::int64_t adapter_parameters(const ModelSpec& m, const AdapterSpec& a) {
  std::int64_t all = 0;
  for (std::int64_t l = 0; a.here() && l < m.num_layers; ++l)
    for (const std::string& target : a.targets) {
      const MatrixSize size = target_size(m, m.kind(l), target);
      if (size.out == 0) continue;
      all += (target.starts_with("experts.") ? m.moe.num_experts : 1) * a.rank * (size.in + size.out);
    }
  return all;
}

std::int64_t trained_in_adapters(const Plan& plan) { return adapter_parameters(plan.model, plan.training.lora); }

}  // namespace tandem
