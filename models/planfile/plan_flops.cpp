#include "models/planfile/plan_flops.hpp"

#include "models/ops/recurrence.hpp"
#include "models/ops/window.hpp"

namespace tandem {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

/// Elements of the matrices between hidden state and queries, keys and values.
double latent(const ModelSpec& m) {
  const LatentSpec& l = m.latent;
  const double h = d(m.hidden_size), heads = d(m.num_attention_heads), q = heads * d(m.head_dim);
  const double queries = l.query_rank > 0 ? d(l.query_rank) * (h + q) : h * q;
  return queries + h * d(l.kv_rank + l.rotary_dim) + d(l.kv_rank) * heads * d(m.head_dim - l.rotary_dim + m.value_dim);
}

double attention(const ModelSpec& m, Mixer mixer, double keys) {
  const AttentionHeads of = m.attention_heads(mixer);
  const double heads = d(of.queries), q = heads * d(of.head_dim), context = heads * d(of.value_dim);
  const double pairs = d(of.head_dim) + d(of.value_dim), h = d(m.hidden_size);
  const double made = (m.attention_gate ? context : 0) + q + d(of.keys) * (of.tied ? d(of.head_dim) : pairs);
  const double in = m.latent.kv_rank > 0 ? latent(m) : h * made;
  return 2 * (in + h * context) + 2 * heads * pairs * keys;
}

/// Mean number of keys that a token sees in a layer.
double keys_seen(const ModelSpec& m, std::int64_t layer, std::int64_t sequence) {
  const IndexerSpec& i = m.indexer;
  if (m.has_indexer(layer))
    return d(i.blocks() ? pairs_in_blocks(sequence, i.topk, i.block_size) : pairs_seen(sequence, i.topk, false)) / d(sequence);
  return d(pairs_seen(sequence, m.has_window(layer) ? m.window.size : 0, m.window.chunked)) / d(sequence);
}

/// FLOPs of an indexer's matrices per token. index_scores: of a token's scores with `keys` keys.
double index_matrices(const ModelSpec& m) {
  const IndexerSpec& i = m.indexer;
  const std::int64_t queries = i.blocks() ? m.hidden_size : m.latent.query_rank, weights = i.blocks() ? 0 : i.heads;
  return 2 * (d(queries) * d(i.heads * i.head_dim) + d(m.hidden_size) * d(i.head_dim + weights));
}
double index_scores(const ModelSpec& m, double keys) { return 2 * d(m.indexer.heads) * d(m.indexer.head_dim) * keys; }
double all_keys(std::int64_t sequence) { return d(pairs_seen(sequence, 0, false)) / d(sequence); }

/// FLOPs of a recurrent layer per token: its matrices, and one step of the recurrence.
double recurrence(const ModelSpec& m) {
  const RecurrenceSpec& r = m.recurrence;
  const RecurrenceDims one{r.rule, 1, r.heads, 1, r.key_heads, r.key_dim, r.value_dim};
  return 2 * d(m.hidden_size) * d(one.width() + one.values()) + d(one.needed_flops());
}

double mlp(const ModelSpec& m, std::int64_t inner) { return 2.0 * (m.gated() ? 3 : 2) * d(m.hidden_size) * d(inner); }

double router_and_experts(const ModelSpec& m) {
  const bool gate = m.moe.shared_gate && m.moe.num_shared_experts > 0;
  const double router = 2 * d(m.moe.num_experts + (gate ? 1 : 0)) * d(m.hidden_size);
  return router + d(m.moe.experts_per_token) * mlp(m, m.moe.ffn_hidden_size) + mlp(m, m.moe.shared_ffn());
}

}  // namespace

double layer_flops(const ModelSpec& m, std::int64_t layer, std::int64_t sequence) {
  const LayerKind kind = m.kind(layer);
  double sum = 0;
  if (kind.mixes()) sum += kind.has_recurrence() ? recurrence(m) : attention(m, kind.mixer, keys_seen(m, layer, sequence));
  if (kind.feeds()) sum += kind.has_experts() ? router_and_experts(m) : mlp(m, m.ffn_hidden_size);
  if (kind.mixer == Mixer::indexed) sum += index_matrices(m) + index_scores(m, all_keys(sequence));
  return sum;
}

double forward_flops(const ModelSpec& m, std::int64_t sequence) {
  double sum = 2 * d(m.hidden_size) * d(m.vocab_size);
  // A multi-token prediction module has a block, a matrix on two states, and the output matrix.
  sum += d(m.mtp.num_layers) * (2 * 2 * d(m.hidden_size) * d(m.hidden_size) + sum);
  for (std::int64_t l = 0; l < m.num_layers + m.mtp.num_layers; ++l) sum += layer_flops(m, l, sequence);
  return sum;
}

/// An indexer has no gradients of its input. Its scores have gradients only for the chosen keys.
double training_flops(const ModelSpec& m, std::int64_t sequence) {
  double sum = 3 * forward_flops(m, sequence);
  for (std::int64_t l = 0; l < m.num_layers + m.mtp.num_layers; ++l) {
    if (!m.has_indexer(l)) continue;
    const double dropped = index_scores(m, all_keys(sequence)) - index_scores(m, keys_seen(m, l, sequence));
    sum -= index_matrices(m) + 2 * dropped;
  }
  return sum;
}

}  // namespace tandem
