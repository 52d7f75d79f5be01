#include "models/plan/active_parameters.hpp"

namespace tandem {
namespace {

/// Rows and columns of a matrix.
struct MatrixSize {
  std::int64_t out, in;
};

MatrixSize size_of(const ModelSpec& m, LayerKind kind, std::string_view target) {
  const AttentionHeads h = m.attention_heads(kind.mixer);
  const std::int64_t context = h.queries * h.value_dim;
  if (target == "qkv") {
    const std::int64_t keys = h.keys * (h.head_dim + (h.tied ? 0 : h.value_dim)), gate = m.attention_gate ? context : 0;
    return {gate + h.queries * h.head_dim + keys, m.hidden_size};
  }
  if (target == "proj") return {m.hidden_size, context};
  if (target == "fc1") return {(m.gated() ? 2 : 1) * m.ffn_hidden_size, m.hidden_size};
  return {m.hidden_size, m.ffn_hidden_size};
}

}  // namespace

std::int64_t adapter_parameters(const ModelSpec& m, const AdapterSpec& a) {
  std::int64_t all = 0;
  for (std::int64_t l = 0; a.here() && l < m.num_layers; ++l)
    for (const std::string& target : a.targets) {
      const MatrixSize size = size_of(m, m.kind(l), target);
      all += a.rank * (size.in + size.out);
    }
  return all;
}

std::int64_t trained_in_adapters(const Plan& plan) { return adapter_parameters(plan.model, plan.training.lora); }

}  // namespace tandem
