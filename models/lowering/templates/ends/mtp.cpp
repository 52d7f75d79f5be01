// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437 section 2.2) around the blocks of its modules. A module reads the
// states of the module before, the first one the model's, after their final norm. Its matrix multiplies the embedding, then
// the state (NVIDIA/Megatron-LM: megatron/core/transformer/multi_token_prediction.py, _concat_embeddings and _postprocess).
// Here the two halves are separate products, and the second adds to the first, so nothing is concatenated in memory.

#include "models/lowering/templates/block_frame.hpp"
#include "models/lowering/templates/ends/embedding.hpp"
#include "models/lowering/templates/gradient_sink.hpp"

namespace tandem::lowering {
namespace {

std::int64_t state(const Shapes& s) { return s.rows * s.hidden; }

Value state_slot(TemplateBuilder& b, const Shapes& s, std::string name) {
  return b.whole(b.slot(std::move(name), MemoryKind::activations), s.dtypes.compute, state(s));
}

NormParams gradients_of(const Shapes& s, const std::string& norm, const GradientSink& sink) {
  return {sink.part(norm + ".weight"), s.norm_bias ? sink.part(norm + ".bias") : Value{}};
}

void open_norm(const Shapes& s, const std::string& norm, GradientSink& sink) {
  sink.open(norm + ".weight", norm + (s.norm_bias ? ".bias" : ".weight"), s.numerics.parameter_gradient);
}

// ---- norms behind layers ----

std::string norm_template(bool module, const std::string& pass) { return (module ? "mtp_norm_" : "final_norm_") + pass; }

RegionLayout norm_region(const Shapes& s, bool module) { return module ? mtp_region(s) : head_region(s); }

Value stats_slot(TemplateBuilder& b, const Shapes& s) {
  SlotLayout at(b.slot("saved", MemoryKind::activations));
  at.add(s.norm_copy_type(), s.norm_copy());  // never written
  return at.add(s.numerics.statistics, 2 * s.rows);
}

// ---- inputs of a module's block ----

struct ModuleSaved {
  Value word, word_stats, word_normed, state_stats, state_normed;
  ModuleSaved(const Shapes& s, std::uint16_t slot) {
    SlotLayout at(slot);
    word = at.add(s.dtypes.compute, state(s));
    word_stats = stats(at, s);
    word_normed = operand(at, s);
    state_stats = stats(at, s);
    state_normed = operand(at, s);
  }

 private:
  static Value stats(SlotLayout& at, const Shapes& s) {
    at.add(s.norm_copy_type(), s.norm_copy());
    return at.add(s.numerics.statistics, 2 * s.rows);
  }
  /// Lays out a product's input in the type in which the framework stores it, after its scales.
  static Value operand(SlotLayout& at, const Shapes& s) {
    if (s.narrow.inputs) at.add(DType::fp8, s.scales(state(s)));
    return at.add(s.kept_input(), state(s));
  }
};

/// Halves of the matrix, or of its gradient: for words, then for states.
struct JoinHalves {
  Value word, state;
  JoinHalves(const Shapes& s, const Value& matrix)
      : word(matrix.part(0, s.hidden * s.hidden)), state(matrix.part(s.hidden * s.hidden, s.hidden * s.hidden)) {}
};

MatMul product(const Shapes& s) { return {s.rows, s.hidden, s.hidden, false, true, false}; }

MatMul added_product(const Shapes& s) {
  MatMul op = product(s);
  op.accumulate = true;
  op.total = s.dtypes.compute;
  return op;
}

class ModuleBackward {
 public:
  ModuleBackward(const Shapes& s, bool first)
      : s_(s), layout_(mtp_region(s)), b_("mtp_backward", s.dtypes.compute, s.fusion),
        w_(region_slot(b_, "mtp", MemoryKind::weights, layout_, s.dtypes.weights)),
        sink_(b_, gradient_slot(b_, "mtp_gradients", layout_, s.written_gradients()), first, false) {
    b_.products_in(s.product);
  }

  Template write() {
    const Value x = state_slot(b_, s_, "state");
    const ModuleSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const Value dy = state_slot(b_, s_, "dy"), dstate = state_slot(b_, s_, "dstate"), dwords = state_slot(b_, s_, "dwords");
    const JoinHalves w(s_, w_("join.weight"));
    const Value dword = scratch(), dnormed = scratch(), dx = scratch();
    dgrad("join_word", dy, w.word, dword);
    dgrad("join_state", dy, w.state, dnormed);
    weights(dy, t);
    through_norm("state_norm", {dnormed, x, t.state_stats, w_("state_norm.weight")}, dx);
    b_.add("add_state", Accumulate{state(s_), s_.dtypes.compute, s_.dtypes.compute}, {dx, dstate}, {dstate});
    const bool dropped = s_.hidden_dropout > 0;
    const Value dfound = dropped ? scratch() : dwords;
    through_norm("word_norm", {dword, t.word, t.word_stats, w_("word_norm.weight")}, dfound);
    if (dropped) b_.add("dropout_backward", position_backward(s_, s_.hidden_dropout, false), {dfound}, {dwords});
    return b_.finish();
  }

 private:
  Value scratch() { return b_.scratch(s_.dtypes.compute, state(s_)); }
  void dgrad(const std::string& name, const Value& dy, const Value& w, const Value& dx) {
    b_.add(name + "_dgrad", MatMul{s_.rows, s_.hidden, s_.hidden, false, false, false}, {dy, w}, {dx});
  }
  void weights(const Value& dy, const ModuleSaved& t) {
    sink_.open("join.weight", "join.weight", s_.numerics.parameter_gradient);
    const JoinHalves d(s_, sink_.part("join.weight"));
    wgrad("join_word", dy, t.word_normed, d.word);
    wgrad("join_state", dy, t.state_normed, d.state);
    sink_.close("join");
  }
  void wgrad(const std::string& name, const Value& dy, const Value& x, const Value& dw) {
    b_.add(name + "_wgrad", MatMul{s_.hidden, s_.hidden, s_.rows, true, false, false}, {dy, x}, {dw});
  }
  void through_norm(const std::string& name, const NormGradient& n, const Value& dx) {
    open_norm(s_, name, sink_);
    norm_backward(b_, s_, name, n, dx, gradients_of(s_, name, sink_));
    sink_.close(name);
  }

  const Shapes& s_;
  RegionLayout layout_;
  TemplateBuilder b_;
  RegionValues w_;
  GradientSink sink_;
};

}  // namespace

Template state_norm_forward(const Shapes& s, bool module) {
  const RegionLayout layout = norm_region(s, module);
  TemplateBuilder b(norm_template(module, "forward"), s.dtypes.compute, s.fusion);
  const RegionValues w = region_slot(b, "norm", MemoryKind::weights, layout, s.dtypes.weights);
  const Value x = hidden_slot(b, s, "x"), stats = stats_slot(b, s), y = state_slot(b, s, "state");
  norm(b, s, "final_norm", x, norm_params(s, "final_norm", w), {y, stats});
  return b.finish();
}

Template state_norm_backward(const Shapes& s, bool module, bool first) {
  const RegionLayout layout = norm_region(s, module);
  TemplateBuilder b(norm_template(module, "backward"), s.dtypes.compute, s.fusion);
  const RegionValues w = region_slot(b, "norm", MemoryKind::weights, layout, s.dtypes.weights);
  GradientSink sink(b, gradient_slot(b, "norm_gradients", layout, s.written_gradients()), first);
  const Value x = hidden_slot(b, s, "x"), stats = stats_slot(b, s), dy = state_slot(b, s, "dstate"), dx = hidden_slot(b, s, "dx");
  open_norm(s, "final_norm", sink);
  norm_backward(b, s, "final_norm", {dy, x, stats, w("final_norm.weight")}, dx, gradients_of(s, "final_norm", sink));
  sink.close("final_norm");
  return b.finish();
}

Template mtp_forward(const Shapes& s) {
  const RegionLayout word_layout = word_region(s), layout = mtp_region(s);
  TemplateBuilder b("mtp_forward", s.dtypes.compute, s.fusion);
  b.products_in(s.product);
  const RegionValues word = region_slot(b, "word", MemoryKind::weights, word_layout, s.dtypes.weights);
  const RegionValues w = region_slot(b, "mtp", MemoryKind::weights, layout, s.dtypes.weights);
  const Value words = b.whole(b.slot("words", MemoryKind::activations), DType::int32, s.tokens);
  const Value x = state_slot(b, s, "state"), y = hidden_slot(b, s, "y");
  const ModuleSaved t(s, b.slot("saved", MemoryKind::activations));
  const bool dropped = s.hidden_dropout > 0;
  const Value found = dropped ? b.scratch(s.dtypes.compute, state(s)) : t.word;
  look_up_words(b, s, words, word("word.weight"), found);
  if (dropped) b.add("dropout", position(s, s.hidden_dropout, false), {found}, {t.word});
  norm(b, s, "word_norm", t.word, norm_params(s, "word_norm", w), {t.word_normed, t.word_stats});
  norm(b, s, "state_norm", x, norm_params(s, "state_norm", w), {t.state_normed, t.state_stats});
  const JoinHalves halves(s, w("join.weight"));
  b.add("join_word", product(s), {t.word_normed, halves.word}, {y});
  b.add("join_state", added_product(s), {t.state_normed, halves.state, y}, {y});
  return b.finish();
}

Template mtp_backward(const Shapes& s, bool first) { return ModuleBackward(s, first).write(); }

Template mtp_words(const Shapes& s, bool first) {
  const RegionLayout layout = word_region(s);
  TemplateBuilder b("mtp_words", s.dtypes.compute, s.fusion);
  GradientSink sink(b, gradient_slot(b, "word_gradients", layout, s.written_gradients()), first);
  const Value tokens = b.whole(b.slot("mtp_tokens", MemoryKind::activations), DType::int32, s.mtp * s.tokens);
  const Value dwords = b.whole(b.slot("dwords", MemoryKind::activations), s.dtypes.compute, s.mtp * state(s));
  GradientParts parts(b, sink, s, "word.weight");
  for (std::int64_t k = 0; k < s.mtp; ++k) {
    const std::string number = std::to_string(k + 1);
    const Value all = found_gradient(b, s, dwords.part(k * state(s), state(s)), "mtp" + number + "_", "mtp" + number + "_words");
    b.add("mtp" + number + "_embedding_backward", EmbeddingBackward{s.tokens, s.hidden, s.vocab_rows},
          {tokens.part(k * s.tokens, s.tokens), all}, {parts.next()});
    parts.add("mtp" + number + "_embedding", k + 1 == s.mtp);
  }
  return b.finish();
}

}  // namespace tandem::lowering
