// Exact parameter counts. The formulas are those of the families' reference implementations; tests compare them with
// the published figure of every preset.

#include <array>

#include "models/plan/active_parameters.hpp"
#include "models/plan/plan.hpp"

namespace tandem {
namespace {

std::int64_t matrix(std::int64_t rows, std::int64_t cols, bool bias) { return rows * cols + (bias ? rows : 0); }

std::int64_t norm(const ModelSpec& m) {
  return m.normalization == Normalization::layernorm && m.norm_bias ? 2 * m.hidden_size : m.hidden_size;
}

/// From the hidden state to queries, keys and values, with the norms of the compressed rows.
std::int64_t latent(const ModelSpec& m) {
  const LatentSpec& l = m.latent;
  const std::int64_t q = m.num_attention_heads * m.head_dim, kv = m.num_attention_heads * (m.head_dim - l.rotary_dim + m.value_dim);
  const std::int64_t queries = l.query_rank > 0 ? l.query_rank * (m.hidden_size + 1 + q) : m.hidden_size * q;
  return queries + m.hidden_size * (l.kv_rank + l.rotary_dim) + l.kv_rank * (1 + kv);
}

/// Indexer: matrices of queries, of their shared key and of head weights, and the key's norm. Block-level: the first two, and
/// norms if attention has them (MiniMax-M3; huggingface/transformers: src/transformers/models/minimax_m3_vl, MiniMaxM3VLIndexer).
std::int64_t indexer(const ModelSpec& m) {
  const IndexerSpec& i = m.indexer;
  if (i.blocks()) return m.hidden_size * (i.heads + 1) * i.head_dim + (m.qk_norm == QkNorm::head ? 2 * i.head_dim : 0);
  return m.latent.query_rank * i.heads * i.head_dim + m.hidden_size * i.head_dim + 2 * i.head_dim + m.hidden_size * i.heads;
}

/// Weights of the norms of queries and keys.
std::int64_t qk_norm(const ModelSpec& m, const AttentionHeads& h) {
  switch (m.qk_norm) {
    case QkNorm::none: case QkNorm::turned: return 0;
    case QkNorm::head: return 2 * h.head_dim;
    case QkNorm::row: return (h.queries + h.keys) * h.head_dim;
  }
  return 0;
}

std::int64_t attention(const ModelSpec& m, Mixer mixer) {
  const AttentionHeads h = m.attention_heads(mixer);
  const std::int64_t q = h.queries * h.head_dim, context = h.queries * h.value_dim;
  const std::int64_t norms = qk_norm(m, h), sinks = m.has_sinks(mixer) ? h.queries : 0;
  const std::int64_t kv = h.keys * (h.head_dim + (h.tied ? 0 : h.value_dim)), gate = m.attention_gate ? context : 0;
  const std::int64_t in = m.latent.kv_rank > 0 ? latent(m) : matrix(gate + q + kv, m.hidden_size, m.qkv_bias);
  return in + matrix(m.hidden_size, context, m.linear_bias) + norms + sinks + (mixer == Mixer::indexed ? indexer(m) : 0);
}

/// Recurrence: both matrices, the convolution, scalars per head, and the norm.
std::int64_t recurrence(const ModelSpec& m) {
  const RecurrenceSpec& r = m.recurrence;
  const bool mamba = r.rule == RecurrenceRule::mamba2;
  const std::int64_t values = r.heads * r.value_dim, mixed = 2 * r.key_heads * r.key_dim + values;
  const std::int64_t scalars = (mamba ? 1 : 2) * r.heads, vectors = (mamba ? 3 : 2) * r.heads;
  const std::int64_t conv = mixed * (r.conv_width + (r.conv_bias ? 1 : 0));
  return m.hidden_size * (mixed + values + scalars) + conv + vectors + (mamba ? values : r.value_dim) + values * m.hidden_size;
}

std::int64_t mlp(const ModelSpec& m, std::int64_t inner) {
  return matrix(m.gated() ? 2 * inner : inner, m.hidden_size, m.linear_bias) +
         matrix(m.hidden_size, inner, m.linear_bias);
}

std::int64_t experts(const ModelSpec& m) {
  const std::int64_t router = matrix(m.moe.num_experts, m.hidden_size, m.moe.router_bias);
  const std::int64_t gate = m.moe.shared_gate && m.moe.num_shared_experts > 0 ? m.hidden_size : 0;
  const std::int64_t shared = m.moe.num_shared_experts > 0 ? mlp(m, m.moe.shared_ffn()) : 0;
  const std::int64_t norms = ((m.moe.branch_norms ? 3 : 0) + (m.moe.router_norm ? 1 : 0)) * norm(m);
  const std::int64_t scale = m.moe.expert_scale ? m.moe.num_experts : 0;
  return router + gate + shared + norms + scale + m.moe.num_experts * mlp(m, m.moe.ffn_hidden_size);
}

std::int64_t embedding(const ModelSpec& m, std::int64_t vocabulary) {
  const bool learned = m.position_embedding == PositionEmbedding::learned;
  const std::int64_t rows = vocabulary + m.token_types + (learned ? m.max_position_embeddings : 0);
  return rows * m.hidden_size + (m.embedding_norm ? norm(m) : 0);
}

/// One table per stack, shared by its layers.
std::int64_t relative_tables(const ModelSpec& m) {
  if (m.position_embedding != PositionEmbedding::relative) return 0;
  return (m.num_decoder_layers > 0 ? 2 : 1) * kRelativeBuckets * m.num_attention_heads;
}

/// Parameters of one layer without cross attention.
std::int64_t layer_norms(const ModelSpec& m) {
  if (m.norm_placement == NormPlacement::behind) return 2 * norm(m);
  const int before = m.parallel_residual == ParallelResidual::one_norm ? 1 : 2;
  return (before + (m.norm_placement == NormPlacement::sandwich ? 2 : 0)) * norm(m);
}

/// Pre-norm stacks end with a norm of their own.
std::int64_t final_norms(const ModelSpec& m) {
  if (m.norm_placement == NormPlacement::post || m.norm_placement == NormPlacement::post_add) return 0;
  return (m.num_decoder_layers > 0 ? 2 : 1) * norm(m);
}

/// Pooler and next-sentence classifier, and the masked-token head's transform and output bias (Devlin et al. 2019).
std::int64_t bert_heads(const ModelSpec& m, std::int64_t vocabulary) {
  const std::int64_t dense = matrix(m.hidden_size, m.hidden_size, true);
  return dense + matrix(2, m.hidden_size, true) + dense + norm(m) + vocabulary;
}

std::int64_t head(const ModelSpec& m, std::int64_t vocabulary) {
  const bool bias = m.output_bias && m.family != Family::bert;
  const std::int64_t output = (m.tie_embeddings ? 0 : vocabulary * m.hidden_size) + (bias ? vocabulary : 0);
  return final_norms(m) + output + (m.family == Family::bert ? bert_heads(m, vocabulary) : 0);
}

/// Parameters of a layer with experts and router.
std::int64_t layer(const ModelSpec& m, LayerKind kind) {
  const std::int64_t mixer = kind.has_recurrence() ? recurrence(m) : kind.mixes() ? attention(m, kind.mixer) : 0;
  const std::int64_t feed = kind.has_experts() ? experts(m) : kind.feeds() ? mlp(m, m.ffn_hidden_size) : 0;
  return mixer + feed + (kind.mixes() && kind.feeds() ? layer_norms(m) : norm(m));
}

/// Layers of every kind, by its index.
std::array<std::int64_t, kLayerKinds> count_kinds(const ModelSpec& m) {
  std::array<std::int64_t, kLayerKinds> n{};
  for (std::int64_t l = 0; l < m.num_layers; ++l) ++n[m.kind(l).index()];
  return n;
}

/// Parameters of a layer with full attention if any has it, else of the first layer.
LayerKind plain_kind(const ModelSpec& m) {
  for (std::int64_t l = 0; l < m.num_layers; ++l)
    if (m.kind(l).mixer == Mixer::full) return m.kind(l);
  return m.kind(0);
}

/// Parameters of routed experts that a token is not sent to.
std::int64_t unused_experts(const ModelSpec& m) {
  std::int64_t layers = 0;
  for (std::int64_t l = 0; l < m.num_layers; ++l) layers += m.kind(l).has_experts() ? 1 : 0;
  return layers == 0 ? 0 : layers * (m.moe.num_experts - m.moe.experts_per_token) * mlp(m, m.moe.ffn_hidden_size);
}

/// Parameters of one MTP module: two norms, its matrix, a block like the last layer and a final norm.
std::int64_t mtp_module(const ModelSpec& m) {
  return 3 * norm(m) + 2 * m.hidden_size * m.hidden_size + layer(m, m.kind(m.num_layers));
}

}  // namespace

ParameterCount count_parameters(const ModelSpec& m, std::int64_t padded_vocab_size) {
  const std::array<std::int64_t, kLayerKinds> layers = count_kinds(m);
  ParameterCount c;
  const LayerKind plain = plain_kind(m);
  c.per_layer = layer(m, {plain.mixer, plain.has_experts() ? FeedForward::mlp : plain.feed});
  c.per_decoder_layer = m.num_decoder_layers > 0 ? c.per_layer + attention(m, Mixer::full) + norm(m) : 0;
  std::int64_t blocks = m.num_decoder_layers * c.per_decoder_layer;
  for (std::size_t k = 0; k < kLayerKinds; ++k) {
    if (layers[k] == 0) continue;
    const LayerKind kind = LayerKind::at(k);
    blocks += layers[k] * layer(m, kind);
    if (kind.has_experts() && (c.per_moe_layer == 0 || kind.mixer == plain.mixer)) c.per_moe_layer = layer(m, kind);
  }
  c.embedding = embedding(m, m.vocab_size) + relative_tables(m);
  c.head = head(m, m.vocab_size);
  c.mtp = m.mtp.num_layers > 0 ? m.mtp.num_layers * mtp_module(m) : 0;
  c.total = blocks + c.mtp + c.embedding + c.head;
  c.total_padded = blocks + c.mtp + embedding(m, padded_vocab_size) + relative_tables(m) + head(m, padded_vocab_size);
  return c;
}

std::int64_t active_parameters(const ModelSpec& m) {
  const ParameterCount count = count_parameters(m, m.vocab_size);
  return count.total - count.mtp - unused_experts(m);
}

}  // namespace tandem
