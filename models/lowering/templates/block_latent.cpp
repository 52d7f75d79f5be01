// Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): queries, keys and values of all heads
// come from compressed rows. The down-projections are replicated on all tensor ranks and work on this
// rank's rows. The up-projections are cut by heads, as in Megatron-Core's multi_latent_attention.py.

#include "models/lowering/templates/block_activations.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

/// The norm's output, recomputed if it was not stored.
Value BlockActivations::own_latent_queries(const Value& x) {
  LatentSaved& l = t_.latent;
  if (l.q.ready) return l.q;
  const std::int64_t rank = s_.latent.query_rank;
  if (!l.q_down.ready) {
    const Value input = own_input(1, x);
    column("q_down", input, rank, start(l.q_down, s_.rows * rank));
  }
  start(l.q_stats, 2 * s_.rows, s_.numerics.statistics);
  start(l.q, s_.rows * rank, s_.kept_input());
  b_.add("q_latent_norm", LayerNorm{s_.rows, rank, s_.norm_epsilon, true}, {l.q_down, w_.vector("q_latent_norm.weight")},
         {l.q, l.q_stats});
  return l.q;
}

void BlockActivations::own_latent_kv(const Value& x, bool turned) {
  LatentSaved& l = t_.latent;
  if (l.kv.ready && (!turned || l.turned.ready)) return;
  const std::int64_t rank = s_.latent.kv_rank, rest = s_.rotary_dim;
  if (!l.kv_down.ready) {
    const Value input = own_input(1, x);
    column("kv_down", input, rank + rest, start(l.kv_down, s_.rows * (rank + rest)));
  }
  start(l.kv_stats, 2 * s_.rows, s_.numerics.statistics);
  start(l.kv, s_.rows * rank, s_.kept_input());
  start(l.turned, s_.rows * rest);
  b_.add("kv_latent_norm", LatentNorm{s_.rows, rank, rest, s_.norm_epsilon}, {l.kv_down, w_.vector("kv_latent_norm.weight")},
         {l.kv, l.turned, l.kv_stats});
}

Value BlockActivations::latent_queries(const Value& x) {
  if (s_.latent.query_rank == 0) return input(1, x);
  if (latent_queries_.elements == 0) latent_queries_ = tensor_gather(b_, s_, own_latent_queries(x), "q_latent");
  return latent_queries_;
}

Value BlockActivations::latent_kv(const Value& x) {
  if (latent_kv_.elements > 0) return latent_kv_;
  own_latent_kv(x, false);
  return latent_kv_ = tensor_gather(b_, s_, t_.latent.kv, "kv_latent");
}

/// qkv of all tokens before the rotary embedding.
void BlockActivations::latent_heads(const Value& x, const Value& y) {
  const std::int64_t n = s_.tokens;
  const Value q = b_.scratch(s_.dtypes.compute, n * s_.queries()), kv = b_.scratch(s_.dtypes.compute, n * s_.latent_kv());
  const Value queries = latent_queries(x);
  column("q_up", queries, s_.queries(), q);
  own_latent_kv(x, true);
  const Value pairs = latent_kv(x);
  b_.collectives_in_pieces(false);  // no product reads it
  const Value turned = tensor_gather(b_, s_, t_.latent.turned, "k_turned");
  b_.collectives_in_pieces(s_.tensor_overlap);
  column("kv_up", pairs, s_.latent_kv(), kv);
  b_.add("latent_heads", s_.latent_heads(), {q, kv, turned}, {y});
}

}  // namespace tandem::lowering
