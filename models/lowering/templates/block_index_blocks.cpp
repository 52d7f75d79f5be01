// Block-level indexer: chooses blocks of keys for each key head (MiniMax Sparse Attention, arXiv 2606.13392 section 3.1). Its
// queries and key have attention's norms and rotary embedding (huggingface/transformers: src/transformers/models/minimax_m3_vl).

#include "models/lowering/templates/block_activations.hpp"

namespace tandem::lowering {

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
