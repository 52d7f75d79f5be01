// Gradients of the indexer in sparse training: of the divergence of its scores from attention's distribution over the
// chosen keys. Its input is detached, so no gradient flows further (DeepSeek-V3.2, arXiv 2512.02556 section 2.1).

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

/// Tensor ranks have different attention heads, so their probabilities are summed.
Value BlockBackward::index_target() {
  const AttentionDims d = core_dims(s_);
  const BlockSaved& t = a_.at();
  const Value target = b_.scratch(s_.numerics.statistics, s_.tokens * d.listed_keys());
  const auto task = b_.add("index_target", IndexTarget{d}, {t.qkv, a_.all_kv(), t.attention_stats, a_.chosen()}, {target});
  b_.collectives_in_pieces(false);  // it follows no product
  tensor_all_reduce(b_, s_, target, "index_target", task);
  b_.collectives_in_pieces(s_.tensor_overlap);
  return target;
}

/// This rank's part of the key gradients, summed over all context ranks.
void BlockBackward::scatter_index_keys(const Value& dk, const Value& own) {
  b_.add("index_dk_reduce_scatter", Collective{CollectiveKind::reduce_scatter, Group::context, dk.elements, dk.dtype, Reduce::sum}, {dk},
         {own}, Stream::tensor);
}

/// From the gradient of all keys to the gradient of the input of this rank's key norm.
Value BlockBackward::index_key_gradient(const Value& dk) {
  const std::int64_t n = s_.tokens, d = s_.indexer.head_dim;
  Value own = dk;
  if (s_.path == ContextPath::all_gather) scatter_index_keys(dk, own = scratch(n * d));
  b_.add("index_k_rotary_backward", s_.index_rotation(true, 1), {own}, {own});
  const IndexSaved& t = a_.at().index;
  const Value down = hold(held_.index_k, n * d);
  GradientSink& early = early_sink();
  early.open("index_k_norm.weight", "index_k_norm.bias", gradient_type());
  b_.add("index_k_norm_backward", LayerNormBackward{n, d, false},
         {own, t.k_down, t.k_stats, weights_.block("index_k_norm.weight")},
         {down, early.part("index_k_norm.weight"), early.part("index_k_norm.bias")});
  early.close("index_k_norm");
  return down;
}

void BlockBackward::index_gradients() {
  if (s_.indexer.blocks()) return block_index_gradients();
  const IndexDims d = s_.index_dims();
  const IndexSaved& t = a_.at().index;
  const Value target = index_target(), k = a_.all_index_keys();
  const Value dq = hold(held_.index_q, d.query_elements()), dk = scratch(k.elements), dw = hold(held_.index_w, s_.tokens * d.heads);
  b_.add("index_topk_backward", IndexTopKBackward{d, s_.global_sequences * s_.seq * s_.context}, {target, t.q, k, t.w, t.chosen}, {dq, dk, dw});
  b_.add("index_q_rotary_backward", s_.index_rotation(true, d.heads), {dq}, {dq});
  const Value down = index_key_gradient(dk);
  if (weights_here()) index_weights(dq, down, dw);
}

void BlockBackward::index_weights(const Value& dq, const Value& dk, const Value& dw) {
  const IndexerShape& i = s_.indexer;
  if (i.blocks()) {
    latent_weight("index_q", dq, attention_input(), i.heads * i.head_dim);
    return latent_weight("index_k", dk, attention_input(), i.head_dim);
  }
  latent_weight("index_q", dq, a_.latent_queries(x_.state), i.heads * i.head_dim);
  latent_weight("index_k", dk, attention_input(), i.head_dim);
  latent_weight("index_w", dw, attention_input(), i.heads);
}

// ---- gradients of blocks of keys ----

// Gradients of the block-level indexer in sparse training: of the divergence of its scores from attention's distribution over
// the chosen keys. Its input is detached, so no gradient flows further (MiniMax Sparse Attention, arXiv 2606.13392 section 3.2).


/// Output gradient of an indexer's matrix, from the output gradient of its norm.
Value BlockBackward::index_norm_gradient(const std::string& name, const IndexPart& part, const Value& dy) {
  const std::int64_t d = s_.indexer.head_dim, rows = dy.elements / d;
  const Value dx = hold(part.held, dy.elements);
  const std::string weight = name + "_norm.weight";
  GradientSink& early = early_sink();
  early.open(weight, weight, gradient_type());
  b_.add(name + "_norm_backward", LayerNormBackward{rows, d, false, true}, {dy, part.down, part.stats, weights_.block(weight)},
         {dx, early.part(weight)});
  early.close(name + "_norm");
  return dx;
}

void BlockBackward::block_index_gradients() {
  const IndexDims d = s_.index_dims();
  const BlockSaved& t = a_.at();
  const IndexPart query{t.index.q_down, t.index.q_stats, held_.index_q}, key{t.index.k_down, t.index.k_stats, held_.index_k};
  const Value q = a_.index_queries(), k = a_.all_index_keys();
  const bool norms = s_.norms_qk(), gathered = s_.path == ContextPath::all_gather;
  const auto place = [&](const Value& held, std::int64_t n) { return norms ? scratch(n) : hold(held, n); };
  Value dq = place(query.held, q.elements), dk = place(key.held, s_.tokens * d.head_dim);
  const Value all_dk = gathered ? scratch(k.elements) : dk;
  b_.add("index_blocks_backward", IndexBlocksBackward{core_dims(s_), d.heads, d.head_dim},
         {t.qkv, a_.all_kv(), t.attention_stats, q, k, a_.chosen(), t.index.stats}, {dq, all_dk});
  if (gathered) scatter_index_keys(all_dk, dk);
  if (s_.rotary) {
    b_.add("index_q_rotary_backward", s_.index_rotation(true, d.heads), {dq}, {dq});
    b_.add("index_k_rotary_backward", s_.index_rotation(true, 1), {dk}, {dk});
  }
  if (norms) dq = index_norm_gradient("index_q", query, dq), dk = index_norm_gradient("index_k", key, dk);
  if (weights_here()) index_weights(dq, dk, {});
}

}  // namespace tandem::lowering
