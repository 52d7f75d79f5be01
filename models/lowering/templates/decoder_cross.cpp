// Cross attention: a decoder's attention to the encoder's output (arXiv 1706.03762 section 3.2.3),
// between self attention and MLP. Queries come from the decoder's state, keys and values from the
// memory. It has no position bias (arXiv 1910.10683), so it is flash attention if the plan has that.

#include "models/lowering/templates/block_activations.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

Value BlockActivations::cross_normed() {
  CrossSaved& t = t_.cross;
  if (cross_input_.elements > 0) return cross_input_;
  if (!t.n.ready) {
    start(t.n, s_.rows * s_.hidden);
    // Recomputation writes the same statistics again.
    norm(b_, s_, "cross_norm", t.x, norm_params(s_, "cross_norm", w_.block), {t.n, t.norm_stats});
  }
  return cross_input_ = tensor_gather(b_, s_, t.n, "cross_norm");
}

Value BlockActivations::all_memory(const Value& memory) {
  if (all_memory_.elements == 0) all_memory_ = tensor_gather(b_, s_, memory, "memory");
  return all_memory_;
}

void BlockActivations::cross(const Value& memory) {
  CrossSaved& t = t_.cross;
  const AttentionDims d = s_.cross_dims();
  column("cross_q", cross_normed(), d.q_width(), t.q);
  column("cross_kv", all_memory(memory), d.kv_width(), t.kv);
  need_cross_core();
  if (!s_.flash) b_.add("cross_context", AttentionContext{d}, {t.dropped, t.kv}, {t.context});
}

void BlockActivations::need_cross_core() {
  CrossSaved& t = t_.cross;
  if (s_.flash ? t.stats.ready : t.probs.ready) return;
  const AttentionDims d = s_.cross_dims();
  if (s_.flash) {
    start(t.stats, stats_elements(d), s_.numerics.statistics);
    // Recomputation writes the same output again.
    const FlashAttention op{d, s_.attention_dropout, false, -1, DropoutSite::cross_attention,
                         s_.flash_kernel(false), s_.fusion.deterministic_attention};
    b_.add("cross_attention", op, {t.q, t.kv}, {t.context, t.stats});
    return;
  }
  const std::int64_t n = score_elements(d);
  if (!t.scores.ready) {
    start(t.scores, n);
    b_.add("cross_scores", AttentionScores{d}, {t.q, t.kv}, {t.scores});
  }
  start(t.probs, n);
  std::vector<Value> out{t.probs};
  if (s_.attention_dropout > 0) out.push_back(start(t.dropped, n));
  else t.dropped = t.probs;
  b_.add("cross_softmax", AttentionSoftmax{d, s_.attention_dropout, false, 0, DropoutSite::cross_attention}, {t.scores}, out);
}

}  // namespace tandem::lowering
