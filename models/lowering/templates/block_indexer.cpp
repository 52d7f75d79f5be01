// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556 section 2.1) scores all query-key pairs and picks each query's
// best keys. Each tensor rank computes all of it (Megatron-Core: megatron/core/transformer/experimental_attention_variant/dsa.py).

#include "models/lowering/templates/block_activations.hpp"

namespace tandem::lowering {

/// Index keys of this rank's positions.
Value BlockActivations::index_keys() {
  IndexSaved& t = t_.index;
  if (s_.indexer.blocks()) return index_part("index_k", 1, t.k_down, t.k_stats, t.k);
  if (t.k.ready) return t.k;
  const std::int64_t n = s_.tokens, d = s_.indexer.head_dim;
  if (!t.k_down.ready) {
    const Value read = input(1, state_);
    column("index_k", read, d, start(t.k_down, n * d));
  }
  start(t.k_stats, 2 * n, s_.numerics.statistics);
  start(t.k, n * d);
  b_.add("index_k_norm", LayerNorm{n, d, s_.norm_epsilon}, {t.k_down, w_.block("index_k_norm.weight"), w_.block("index_k_norm.bias")},
         {t.k, t.k_stats});
  b_.add("index_k_rotary", s_.index_rotation(false, 1), {t.k}, {t.k});
  return t.k;
}

Value BlockActivations::all_index_keys() {
  if (all_index_keys_.elements > 0) return all_index_keys_;
  const Value own = index_keys();
  if (s_.path != ContextPath::all_gather) return all_index_keys_ = own;
  const Value all = b_.scratch(own.dtype, own.elements * s_.context);
  b_.add("index_k_all_gather", Collective{CollectiveKind::all_gather, Group::context, all.elements, own.dtype, Reduce::sum}, {own},
         {all}, Stream::tensor);
  return all_index_keys_ = all;
}

Value BlockActivations::index_queries() {
  IndexSaved& t = t_.index;
  const IndexDims d = s_.index_dims();
  if (s_.indexer.blocks()) return index_part("index_q", d.heads, t.q_down, t.q_stats, t.q);
  if (t.q.ready) return t.q;
  const Value read = latent_queries(state_);
  column("index_q", read, d.heads * d.head_dim, start(t.q, d.query_elements()));
  b_.add("index_q_rotary", s_.index_rotation(false, d.heads), {t.q}, {t.q});
  return t.q;
}

Value BlockActivations::chosen() {
  IndexSaved& t = t_.index;
  if (t.chosen.ready) return t.chosen;
  if (s_.indexer.blocks()) return chosen_blocks();
  const IndexDims d = s_.index_dims();
  const Value q = index_queries(), k = all_index_keys();
  if (!t.w.ready) {
    const Value read = input(1, state_);
    column("index_w", read, d.heads, start(t.w, s_.tokens * d.heads));
  }
  start(t.chosen, d.rows() * d.listed(), DType::int32);
  b_.add("index_topk", IndexTopK{d}, {q, k, t.w}, {t.chosen});
  return t.chosen;
}

// ---- blocks of keys ----

// Block-level indexer: chooses blocks of keys for each key head (MiniMax Sparse Attention, arXiv 2606.13392 section 3.1). Its
// queries and key have attention's norms and rotary embedding (huggingface/transformers: src/transformers/models/minimax_m3_vl).


/// Index queries or the index key of all tokens, from attention's input.
Value BlockActivations::index_part(const std::string& name, std::int64_t heads, Kept& down, Kept& stats, Kept& y) {
  if (y.ready) return y;
  const std::int64_t rows = s_.tokens * heads, d = s_.indexer.head_dim;
  const bool norms = s_.norms_qk();
  Kept& made = norms ? down : y;
  if (!made.ready) {
    const Value read = input(1, state_);
    column(name, read, heads * d, start(made, rows * d));
  }
  if (norms) {
    start(stats, 2 * rows, s_.numerics.statistics);
    start(y, rows * d);
    b_.add(name + "_norm", LayerNorm{rows, d, s_.norm_epsilon, true}, {down, w_.block(name + "_norm.weight")}, {y, stats});
  }
  if (s_.rotary) b_.add(name + "_rotary", s_.index_rotation(false, heads), {y}, {y});
  return y;
}

Value BlockActivations::chosen_blocks() {
  IndexSaved& t = t_.index;
  const IndexDims d = s_.index_dims();
  const Value q = index_queries(), k = all_index_keys();
  start(t.chosen, d.rows() * d.listed(), DType::int32);
  start(t.stats, d.rows() * d.heads, s_.numerics.statistics);
  b_.add("index_blocks", IndexBlocks{d}, {q, k}, {t.chosen, t.stats});
  return t.chosen;
}

}  // namespace tandem::lowering
