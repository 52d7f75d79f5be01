// Backward pass of a decoder's attention to the encoder's output. The queries'
// gradient goes to the decoder's state, the keys' and values' to the encoder's output.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockBackward::cross(const Value& dy) {
  const CrossSaved& t = a_.at().cross;
  const AttentionDims d = s_.cross_dims();
  const Value own = branch({"cross_add", "cross_proj.bias", DropoutSite::cross_attention_output, {}}, dy);
  const Value dout = tensor_gather(b_, s_, own, "cross_gradient"), dcontext = scratch(s_.tokens * d.q_width());
  b_.add("cross_proj_dgrad", MatMul{s_.tokens, d.q_width(), s_.hidden, false, false, false},
         {dout, weights_.block("cross_proj.weight")}, {dcontext});
  cross_proj_weights(dout);
  const Value dq = scratch(s_.tokens * d.q_width()), dkv = scratch(s_.memory_tokens() * d.kv_width());
  cross_core(dcontext, dq, dkv);
  cross_memory(dkv);
  if (gathers_ahead()) a_.cross_normed();
  const Value dn = sum_input("cross_q", dq, d.q_width(), {});
  column_weights("cross_q", dq, a_.cross_normed(), d.q_width());
  sink_.close("cross_q");
  const Value dx = rows_scratch();
  norm_gradient("cross_norm", {dn, t.x, t.norm_stats, weights_.block("cross_norm.weight"), &dy}, dx);
  return dx;
}

void BlockBackward::cross_core(const Value& dcontext, const Value& dq, const Value& dkv) {
  a_.need_cross_core();
  const CrossSaved& t = a_.at().cross;
  const AttentionDims d = s_.cross_dims();
  if (s_.flash) {
    b_.add("cross_attention_backward",
           FlashAttentionBackward{d, s_.attention_dropout, false, -1, DropoutSite::cross_attention,
                                s_.flash_kernel(true), s_.fusion.deterministic_attention},
           {dcontext, t.q, t.kv, t.context, t.stats}, {dq, dkv});
    return;
  }
  const Value dprobs = scratch(score_elements(d)), dscores = scratch(score_elements(d));
  b_.add("cross_context_backward", AttentionContextBackward{d}, {dcontext, t.dropped, t.kv}, {dprobs, dkv});
  b_.add("cross_softmax_backward", AttentionSoftmaxBackward{d, s_.attention_dropout, 0, DropoutSite::cross_attention},
         {dprobs, t.probs}, {dscores});
  b_.add("cross_scores_backward", AttentionScoresBackward{d}, {dscores, t.q, t.kv, dkv}, {dq, dkv});
}

/// Every decoder layer adds its part to the gradient of the encoder's output.
void BlockBackward::cross_memory(const Value& dkv) {
  const std::int64_t n = s_.memory_tokens(), width = s_.cross_dims().kv_width();
  const Value partial = scratch(n * s_.hidden);
  if (gathers_ahead()) a_.all_memory(memory_);
  const auto dgrad = b_.add("cross_kv_dgrad", MatMul{n, s_.hidden, width, false, false, false},
                            {dkv, weights_.block("cross_kv.weight")}, {partial});
  const Summed sum = tensor_sum(b_, s_, partial, "cross_kv_dgrad", dgrad);
  reduced_ = sum.task;
  has_reduced_ = true;
  column_weights("cross_kv", dkv, a_.all_memory(memory_), width);
  sink_.close("cross_kv");
  b_.add("accumulate_memory", Accumulate{dmemory_.elements, dtype(), dtype()}, {sum.value, dmemory_}, {dmemory_});
}

void BlockBackward::cross_proj_weights(const Value& d) {
  const std::int64_t inner = s_.cross_dims().q_width();
  sink_.open("cross_proj.weight", "cross_proj.weight", gradient_type());
  b_.add("cross_proj_wgrad", MatMul{s_.hidden, inner, s_.tokens, true, false, false}, {d, a_.at().cross.context},
         {sink_.part("cross_proj.weight")});
  sink_.close("cross_proj");
}

}  // namespace tandem::lowering
