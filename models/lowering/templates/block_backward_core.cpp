// Backward pass of attention, from the gradient of its output to that of qkv.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockBackward::core(const Value& dcontext) {
  const bool exchanges = s_.exchanges_heads();
  a_.qkv();
  a_.need_core();
  const Value d = exchanges ? a_.by_heads(dcontext, parts_of_context(s_), "dcontext") : dcontext;
  const Value dqkv = !s_.flash ? score_core(d) : s_.path == ContextPath::ring ? ring_core(d) : flash_core(d);
  const Value out = exchanges ? hold_qkv() : dqkv;
  if (exchanges) a_.by_positions(dqkv, parts_of_qkv(s_), "dqkv", out);
  const bool behind = s_.qk_norm == QkNorm::turned;
  if (behind) qk_norm_gradient(out);
  if (s_.rotary)
    b_.add("rotary_backward", s_.rotation(true), {out}, {out});
  return behind ? out : qk_norm_gradient(out);
}

Value BlockBackward::ungated(const Value& dgated) {
  const std::int64_t n = s_.tokens * s_.attention;
  const Value dcontext = scratch(n), dgate = input_gradient().part(0, n);
  a_.qkv();  // computes the gate, too
  b_.add("attention_gate_backward", SigmoidGateBackward{n}, {dgated, a_.context(), a_.at().gate}, {dcontext, dgate});
  return dcontext;
}

/// Backward through the norms of queries and keys: the product's output gradient, in dqkv's place unless values are keys.
Value BlockBackward::qk_norm_gradient(const Value& dqkv) {
  if (!s_.norms_qk()) return dqkv;
  const AttentionDims d = s_.attention_dims();
  const NormedValues values = s_.normed_values();
  const Value made = s_.keys_are_values ? input_gradient() : dqkv;
  std::vector<Value> in{dqkv, a_.at().unnormed}, out{made};
  if (s_.qk_norm == QkNorm::turned) {
    b_.add("qk_norm_backward", HeadNormBackward{d, s_.norm_epsilon, true}, std::move(in), std::move(out));
    return made;
  }
  GradientSink& early = early_sink();
  const Value q_norm = weights_.block("q_norm.weight"), k_norm = weights_.block("k_norm.weight");
  in.insert(in.end(), {q_norm, k_norm});
  if (frozen()) {  // the kernel writes both gradients all the same
    out.insert(out.end(), {b_.scratch(gradient_type(), q_norm.elements), b_.scratch(gradient_type(), k_norm.elements)});
  } else {
    early.open("q_norm.weight", "k_norm.weight", gradient_type());
    out.insert(out.end(), {early.part("q_norm.weight"), early.part("k_norm.weight")});
  }
  if (s_.qk_norm == QkNorm::head) {
    b_.add("qk_norm_backward", HeadNormBackward{d, s_.norm_epsilon, false, values}, std::move(in), std::move(out));
  } else {
    const Value dots = b_.scratch(s_.numerics.statistics, 2 * s_.tokens);
    const auto task = b_.add("qk_dots", RowNormDots{d}, in, {dots});
    b_.collectives_in_pieces(false);  // it follows no product
    tensor_all_reduce(b_, s_, dots, "qk_dots", task);
    b_.collectives_in_pieces(s_.tensor_overlap);
    in.insert(in.end(), {a_.at().qk_sums, dots});
    b_.add("qk_norm_backward", RowNormBackward{d, s_.tensor, s_.norm_epsilon}, std::move(in), std::move(out));
    if (s_.kv_repeat > 1 && !frozen()) kv_sum("k_norm.weight", early.part("k_norm.weight"));
  }
  if (!frozen()) early.close("qk_norm");
  return made;
}

/// Sums the gradient of all keys and values over the ranks that read them, and writes it into dqkv.
Value BlockBackward::merge_gathered(const Value& dkv_all, const Value& dqkv) {
  const AttentionDims d = exchanged_dims(s_);
  const Value own = scratch(dkv_all.elements / s_.key_ranks());
  b_.add("dkv_reduce_scatter",
         Collective{CollectiveKind::reduce_scatter, s_.keys_group(), dkv_all.elements, dkv_all.dtype, Reduce::sum}, {dkv_all},
         {own}, Stream::tensor);
  b_.add("merge_kv", MergeKv{d.batch * d.seq, d}, {own, dqkv}, {dqkv});
  return dqkv;
}

Value BlockBackward::dqkv_place() {
  return s_.exchanges_heads() ? scratch(core_qkv_elements(s_)) : hold_qkv();
}

/// Latent attention's matrices read other gradients than dqkv; so does a product that computes no values.
Value BlockBackward::hold_qkv() {
  const std::int64_t n = s_.tokens * s_.qkv();
  return s_.latent.here() || s_.keys_are_values ? scratch(n) : input_gradient().part(s_.tokens * s_.input_columns() - n, n);
}

Value BlockBackward::score_core(const Value& dcontext) {
  const AttentionDims d = core_dims(s_);
  const BlockSaved& t = a_.at();
  const bool apart = !d.kv_packed;
  const Value kv = a_.all_kv(), dqkv = dqkv_place();
  const Value dprobs = scratch(score_elements(d)), dscores = scratch(score_elements(d));
  const Value dkv = apart ? scratch(kv.elements) : dqkv;
  b_.add("context_backward", AttentionContextBackward{d}, {dcontext, t.dropped, kv}, {dprobs, dkv});
  softmax_backward(d, dprobs, dscores);
  if (s_.attention_soft_cap > 0)
    b_.add("score_cap_backward", SoftCapBackward{dscores.elements, s_.attention_soft_cap}, {dscores, t.scores}, {dscores});
  std::vector<Value> out{dqkv};
  if (apart) out.push_back(dkv);
  else out.push_back(dqkv);
  b_.add("scores_backward", AttentionScoresBackward{d}, {dscores, t.qkv, kv, dkv}, std::move(out));
  return apart ? merge_gathered(dkv, dqkv) : dqkv;
}

/// All layers of a stack use one table of relative bias: each adds its part to the gradient.
void BlockBackward::softmax_backward(const AttentionDims& d, const Value& dprobs, const Value& dscores) {
  const AttentionSoftmaxBackward op{d, s_.attention_dropout, s_.relative_buckets};
  const std::vector<Value> in{dprobs, a_.at().probs};
  if (s_.relative_buckets == 0) {
    const auto task = b_.add("softmax_backward", op, in, {dscores});
    if (s_.widens_softmax() && !s_.fusion.mask_apart)
      for (int i = 0; i < 2; ++i) b_.hold(task, DType::fp32, dscores.elements);  // gradients of the probabilities and of the scores
    return;
  }
  const Value total = relative_gradients_(s_.relative_table()), dtable = b_.scratch(s_.numerics.parameter_gradient, total.elements);
  b_.add("softmax_backward", op, in, {dscores, dtable});
  b_.add("accumulate_relative", Accumulate{total.elements, dtable.dtype, total.dtype}, {dtable, total}, {total});
}

/// The first or only step of a ring computes the gradient of the sinks, because it reads statistics over all keys.
void BlockBackward::add_flash(const std::string& name, int step, std::vector<Value> in, std::vector<Value> out) {
  const bool sinks = s_.sinks && step <= 0 && !frozen();
  if (sinks) {
    early_sink().open("sinks", "sinks", gradient_type());
    in.push_back(weights_.block("sinks"));
    out.push_back(early_sink().part("sinks"));
  }
  if (s_.indexer.here()) in.push_back(a_.chosen());
  b_.add(name, FlashAttentionBackward{core_dims(s_), s_.attention_dropout, s_.alibi, step, DropoutSite::attention,
                       s_.flash_kernel(true), s_.fusion.deterministic_attention, sinks, s_.attention_soft_cap, s_.indexer.here()},
         std::move(in), std::move(out));
  if (sinks) early_sink().close("sinks");
}

Value BlockBackward::flash_core(const Value& dcontext) {
  const AttentionDims d = core_dims(s_);
  const BlockSaved& t = a_.at();
  const Value kv = a_.all_kv(), dqkv = dqkv_place(), dkv = d.kv_packed ? dqkv : scratch(kv.elements);
  add_flash("attention_backward", -1, {dcontext, t.qkv, kv, t.core_context, t.attention_stats}, {dqkv, dkv});
  return d.kv_packed ? dqkv : merge_gathered(dkv, dqkv);
}

/// Keys, values and their gradients travel round the ring together. A last shift returns the gradients to their owners.
Value BlockBackward::ring_core(const Value& dcontext) {
  const BlockSaved& t = a_.at();
  Value kv = a_.own_kv(), dkv = scratch(kv.elements);
  const Value dqkv = dqkv_place();
  const auto shift = [&](const Value& v, const std::string& name) {
    const Value next = scratch(v.elements);
    b_.add(name, Collective{CollectiveKind::shift, s_.keys_group(), v.elements, v.dtype, Reduce::sum}, {v}, {next},
           Stream::tensor);
    return next;
  };
  for (int step = 0; step < s_.key_ranks(); ++step) {
    const std::string n = std::to_string(step);
    const Value here = kv;
    if (step + 1 < s_.key_ranks()) kv = shift(here, "kv_shift" + n + "_backward");
    std::vector<Value> in{dcontext, t.qkv, here, t.core_context, t.attention_stats};
    if (step > 0) in.insert(in.end(), {dqkv, dkv});
    add_flash("attention_backward" + n, step, std::move(in), {dqkv, dkv});
    dkv = shift(dkv, "dkv_shift" + n);
  }
  const AttentionDims d = exchanged_dims(s_);
  b_.add("merge_kv", MergeKv{d.batch * d.seq, d}, {dkv, dqkv}, {dqkv});
  return dqkv;
}

}  // namespace tandem::lowering
