// Gradients of the block-level indexer in sparse training: of the divergence of its scores from attention's distribution over
// the chosen keys. Its input is detached, so no gradient flows further (MiniMax Sparse Attention, arXiv 2606.13392 section 3.2).

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

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
