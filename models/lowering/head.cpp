#include "models/lowering/blocks.hpp"
#include "models/lowering/gradient_sink.hpp"
#include "models/lowering/norm.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

struct HeadSaved {
  Value stats, n, dlogits;
  HeadSaved(const Shapes& s, std::uint16_t slot) {
    SlotLayout at(slot);
    stats = at.add(s.dtypes.compute, 2 * s.tokens);
    n = at.add(s.dtypes.compute, s.tokens * s.hidden);
    dlogits = at.add(s.dtypes.compute, s.tokens * s.vocab_rows);
  }
};

/// The vectors of the head's norm; the output matrix lies elsewhere when it is tied on the same stage.
Value norm_region(TemplateBuilder& b, const Shapes& s, std::string name, MemoryKind kind, DType dtype) {
  const HeadParams p = head_params(s, false);
  return b.whole(b.slot(std::move(name), kind), dtype, p.elements);
}

NormParams norm_params(const Shapes& s, const Value& region) {
  const HeadParams p = head_params(s, false);
  return {region.part(p.ln_weight, s.hidden), region.part(p.ln_bias, s.rms ? 0 : s.hidden)};
}

}  // namespace

/// Final norm, logits of the vocabulary shard, and the vocabulary-parallel loss: maximum, then sums, then the gradient
/// (Megatron-LM, arXiv 1909.08053 section 3), so that logits never leave a rank.
Template head_forward(const Shapes& s, bool first) {
  TemplateBuilder b("head_forward", s.dtypes.compute);
  const DType d = s.dtypes.compute;
  const Value norm_weights = norm_region(b, s, "norm", MemoryKind::weights, s.dtypes.weights);
  const Value output =
      b.whole(b.slot("output", MemoryKind::weights), s.dtypes.weights, s.vocab_rows * s.hidden);
  const Value x = b.whole(b.slot("x", MemoryKind::activations), d, s.tokens * s.hidden);
  const Value targets = b.whole(b.slot("targets", MemoryKind::activations), DType::int32, s.tokens);
  const Value loss = b.whole(b.slot("loss", MemoryKind::workspace), DType::fp64, 1);
  const HeadSaved saved(s, b.slot("saved", MemoryKind::activations));

  norm(b, s, "final_norm", x, norm_params(s, norm_weights), {saved.n, saved.stats});
  const Value logits = b.scratch(d, s.tokens * s.vocab_rows);
  b.add("logits", MatMul{s.tokens, s.vocab_rows, s.hidden, false, true, false}, {saved.n, output}, {logits});
  const Value max = b.scratch(d, s.tokens), sums = b.scratch(d, 2 * s.tokens);
  const auto vocab_max = b.add("vocab_max", VocabMax{s.vocab_dims()}, {logits}, {max});
  tensor_all_reduce(b, s, max, "vocab_max", vocab_max, Reduce::max);
  const auto exp_sum = b.add("vocab_exp_sum", VocabExpSum{s.vocab_dims()}, {logits, max, targets}, {sums});
  tensor_all_reduce(b, s, sums, "vocab_exp_sum", exp_sum);
  std::vector<Value> in{logits, max, sums, targets};
  if (!first) in.push_back(loss);
  b.add("cross_entropy", CrossEntropy{s.vocab_dims(), s.global_tokens, first}, in, {loss, saved.dlogits});
  return b.finish();
}

Template head_backward(const Shapes& s, bool first) {
  TemplateBuilder b("head_backward", s.dtypes.compute);
  const HeadParams p = head_params(s, false);
  const DType d = s.dtypes.compute;
  const std::int64_t matrix = s.vocab_rows * s.hidden;
  const Value norm_weights = norm_region(b, s, "norm", MemoryKind::weights, s.dtypes.weights);
  const Value output = b.whole(b.slot("output", MemoryKind::weights), s.dtypes.weights, matrix);
  GradientSink norm_sink(b, norm_region(b, s, "norm_gradients", MemoryKind::gradients, s.dtypes.gradients), first);
  GradientSink output_sink(b, b.whole(b.slot("output_gradients", MemoryKind::gradients), s.dtypes.gradients, matrix),
                           first);
  const Value x = b.whole(b.slot("x", MemoryKind::activations), d, s.tokens * s.hidden);
  const HeadSaved saved(s, b.slot("saved", MemoryKind::activations));
  const Value dx = b.whole(b.slot("dx", MemoryKind::activations), d, s.tokens * s.hidden);

  const Value dn = b.scratch(d, s.tokens * s.hidden);
  const auto dgrad = b.add("logits_dgrad", MatMul{s.tokens, s.hidden, s.vocab_rows, false, false, false},
                           {saved.dlogits, output}, {dn});
  const auto reduced = tensor_all_reduce(b, s, dn, "logits_dgrad", dgrad);
  output_sink.open(0, matrix, d);
  const auto wgrad = b.add("logits_wgrad", MatMul{s.vocab_rows, s.hidden, s.tokens, true, false, false},
                           {saved.dlogits, saved.n}, {output_sink.part(0, matrix)});
  if (!s.tensor_overlap) b.depend(wgrad, reduced);
  output_sink.close("output");
  norm_sink.open(p.ln_weight, p.elements - p.ln_weight, d);
  norm_backward(b, s, "final_norm", {dn, x, saved.stats, norm_params(s, norm_weights).weight}, dx,
                {norm_sink.part(p.ln_weight, s.hidden), norm_sink.part(p.ln_bias, s.rms ? 0 : s.hidden)});
  norm_sink.close("final_norm");
  return b.finish();
}

}  // namespace tandem::lowering
