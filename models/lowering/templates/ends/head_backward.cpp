// The head's backward pass. A loss in chunks is all here, because the logits of a chunk end before those of the next begin.

#include <optional>

#include "models/lowering/templates/ends/loss_tasks.hpp"
#include "models/lowering/templates/gradient_sink.hpp"

namespace tandem::lowering {
namespace {

class HeadBackward {
 public:
  /// `first`: overwrites gradients; `first_loss`: overwrites the sum of a loss in chunks.
  HeadBackward(const Shapes& s, bool first, bool first_loss)
      : s_(s), chunk_(chunk_of(s)), first_loss_(first_loss),
        layout_(head_region(s)), output_layout_(output_region(s)), b_("head_backward", s.dtypes.compute, s.fusion),
        w_(has_region(s) ? region_slot(b_, "head", MemoryKind::weights, layout_, s.dtypes.weights) : RegionValues()),
        sink_(b_, has_region(s) && trained(s) ? gradient_slot(b_, "head_gradients", layout_, s.written_gradients()) : RegionValues(), first,
              s.mtp == 0),
        output_(b_.whole(b_.slot("output", MemoryKind::weights), s.dtypes.weights, output_layout_.elements())),
        output_sink_(b_, trained(s) ? gradient_slot(b_, "output_gradients", output_layout_, s.written_gradients()) : RegionValues(),
                     first),
        output_parts_(b_, output_sink_, s, output_layout_.specs().front().name) {}

  Template write() { return in_chunks(s_) ? write_chunks() : s_.mtp > 0 ? write_modules() : write_one(); }

 private:
  /// A chunk's logits, loss, gradients of its states and its part of the output matrix' gradient, then the next chunk's
  /// (pytorch/torchtitan b5bcd76c6: torchtitan/components/loss.py, ChunkedLossWrapper). Its GradAccumulator collects the gradients of
  /// the states in a wider tensor.
  Template write_chunks() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    const Value targets = b_.whole(b_.slot("targets", MemoryKind::activations), DType::int32, s_.tokens);
    const Value total = b_.whole(b_.slot("loss", MemoryKind::workspace), DType::fp64, 1);
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const Hidden dx(s_, hidden_slot(b_, s_, "dx"));
    const Value n = tensor_gather(b_, s_, t.n, "final_norm"), all = b_.scratch(s_.numerics.chunk_gradients, s_.tokens * s_.hidden);
    const bool collects = all.dtype != dtype();
    LossTasks tasks(b_, chunk_, output_, bias_of_logits(s_, w_));
    std::uint16_t last = 0;
    for (std::int64_t c = 0; c < s_.loss_chunks; ++c) {
      const std::string name = "chunk" + std::to_string(c) + "_";
      const std::int64_t states = chunk_.tokens * s_.hidden;
      const Value dlogits = b_.scratch(s_.loss_type(), chunk_.tokens * s_.loss_columns()), mine = n.part(c * states, states);
      const Value logits = tasks.logits(name, mine, dlogits, {}, true);
      const Value labels = targets.part(c * chunk_.tokens, chunk_.tokens);
      tasks.loss(name, chunk_.vocab_dims(), {logits, labels, dlogits, total, first_loss_ && c == 0, s_.global_targets});
      tasks.cap_backward(name, logits, dlogits);
      const Value narrow = own_columns(narrowed(dlogits, name), name);
      const Value into = all.part(c * states, states), piece = collects ? b_.scratch(dtype(), states) : into;
      last = through_chunk(name, narrow, mine, piece, c + 1 == s_.loss_chunks);
      if (collects) last = b_.add(name + "states_gradient", Accumulate{states, dtype(), all.dtype, true}, {piece}, {into});
    }
    const Value dn = collects ? b_.scratch(dtype(), all.elements) : all;
    if (collects) last = b_.add("states_gradient", Accumulate{all.elements, all.dtype, dtype(), true}, {all}, {dn});
    final_norm(tensor_sum(b_, s_, dn, "logits_dgrad", last, {}).value, x.state, t, dx.state);
    return b_.finish();
  }

  /// Returns the task that writes the gradient `dn` of the states `n`.
  std::uint16_t through_chunk(const std::string& name, const Value& dlogits, const Value& n, const Value& dn, bool last) {
    const std::int64_t h = s_.hidden, v = s_.vocab_rows;
    const auto dgrad = b_.add(name + "logits_dgrad", MatMul{chunk_.tokens, h, v, false, false, false}, {dlogits, output_}, {dn});
    if (!trained(s_)) return dgrad;
    const auto wgrad = b_.add(name + "logits_wgrad", MatMul{v, h, chunk_.tokens, true, false, false}, {dlogits, n}, {output_parts_.next()});
    if (last) hold_stand_in(wgrad);
    output_parts_.add(name + "output", last);
    if (s_.output_bias) bias_gradient(name, "output.bias", dlogits, last);
    return dgrad;
  }

  /// Gradients of all hidden states, from the gradients of the logits.
  Template write_modules() {
    const States states(b_, s_, "states");
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const States dstates(b_, s_, "dstates");
    for (std::int64_t k = 0; k <= s_.mtp; ++k) {
      const Value dlogits = k == 0 ? t.dlogits : t.mtp_dlogits[static_cast<std::size_t>(k) - 1];
      const std::string name = task_name(k, "");
      through_logits(k, own_columns(narrowed(dlogits, name), name), states.of(k), dstates.of(k));
    }
    return b_.finish();
  }

  Template write_one() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    t.dlogits = own_columns(narrowed(t.dlogits, ""), "");
    const Hidden dx(s_, hidden_slot(b_, s_, "dx"));
    const bool pre = s_.placement == NormPlacement::pre;
    const Value n = pre ? t.n : x.state, target = pre ? Value{} : dx.state;
    const Value dn = s_.bert ? through_transform(t, n, target) : through_logits(0, t.dlogits, n, target);
    if (s_.bert) pair_backward(t, dn);
    if (pre) final_norm(dn, x.state, t, dx.state);
    if (s_.placement == NormPlacement::post_add)
      b_.add("no_residual", Fill{dx.residual.elements, s_.dtypes.compute}, {}, {dx.residual});
    return b_.finish();
  }

  DType dtype() const { return s_.dtypes.compute; }
  /// Casts to the type of the products.
  Value narrowed(const Value& wide, const std::string& name) {
    if (wide.dtype == dtype()) return wide;
    const Value from = passes_for_loss(s_) ? through_log_softmax(wide, name) : wide;
    const Value narrow = b_.scratch(dtype(), wide.elements);
    const auto task = b_.add(name + "narrow_gradient", Accumulate{wide.elements, wide.dtype, dtype(), true}, {from}, {narrow});
    if (passes_for_loss(s_)) return narrow;
    if (s_.gathers_logits()) b_.hold_ahead(task, dtype(), of_gather(chunk_));
    for (int i = 0; copies_for_loss(s_) && i < 2; ++i) b_.hold_ahead(task, wide.dtype, wide.elements);  // nll_loss', log_softmax'
    return narrow;
  }
  /// PyTorch's nll_loss writes a gradient with one nonzero per row; log_softmax computes another one from it and its own
  /// output. Here the forward pass has computed that gradient already: `wide` stands for the output and is added to zeros.
  Value through_log_softmax(const Value& wide, const std::string& name) {
    const Value gradient = b_.scratch(wide.dtype, wide.elements);
    b_.add(name + "nll_gradient", Fill{wide.elements, wide.dtype}, {}, {gradient});
    const auto task = b_.add(name + "log_softmax_backward", Accumulate{wide.elements, wide.dtype, wide.dtype}, {wide, gradient}, {gradient});
    b_.hold(task, wide.dtype, wide.elements);  // PyTorch's is another tensor
    if (s_.gathers_logits()) b_.hold(task, dtype(), of_gather(chunk_));
    return gradient;
  }
  void open(std::string_view from, std::string_view to) { sink_.open(from, to, s_.numerics.parameter_gradient); }

  /// This rank's share of a gradient over the whole vocabulary.
  Value own_columns(const Value& dlogits, const std::string& name) {
    if (!s_.gathers_logits()) return dlogits;
    const Value by_rank = b_.scratch(dlogits.dtype, dlogits.elements);
    b_.add(name + "dlogits_split", PackColumns{parts_of_logits(chunk_)}, {dlogits}, {by_rank});
    return by_rank.share(Group::tensor, s_.tensor);
  }

  /// Gradient of the output matrix' input; in `to` if given.
  Value through_logits(std::int64_t module, const Value& dlogits, const Value& n, const Value& to) {
    const std::int64_t h = s_.hidden, v = s_.vocab_rows;
    const bool direct = to.elements > 0 && !s_.sequence_parallel;
    const Value partial = direct ? to : b_.scratch(dtype(), s_.tokens * h);
    const bool ahead = s_.sum_beside_weights && trained(s_);
    const std::string norm = task_name(module, "final_norm"), back = task_name(module, "logits_dgrad");
    const Value all = ahead ? tensor_gather(b_, s_, n, norm) : Value{};
    const auto dgrad = b_.add(back, MatMul{s_.tokens, h, v, false, false, false}, {dlogits, output_}, {partial});
    const Summed sum = tensor_sum(b_, s_, partial, back, dgrad, to);
    if (!trained(s_)) return sum.value;
    const auto wgrad = b_.add(task_name(module, "logits_wgrad"), MatMul{v, h, s_.tokens, true, false, false},
                              {dlogits, ahead ? all : tensor_gather(b_, s_, n, norm)}, {output_parts_.next()});
    if (!ahead) b_.depend(wgrad, sum.task);
    hold_stand_in(wgrad);
    output_parts_.add(task_name(module, "output"), module == s_.mtp);
    if (s_.output_bias) bias_gradient(task_name(module, ""), "output.bias", dlogits, module == s_.mtp);
    return sum.value;
  }

  /// Holds a stand-in for the output matrix' gradient. A wide gradient of the logits keeps its slot
  /// to the end of the template although it is freed by then, so only the excess over it counts.
  void hold_stand_in(std::uint16_t wgrad) {
    if (!s_.fusion.gradient_stand_ins) return;
    const std::int64_t gone = s_.loss_type() == dtype() ? 0 : bytes_of(s_.loss_type(), chunk_.tokens * s_.loss_columns()).count();
    const std::int64_t more = bytes_of(dtype(), s_.vocab_rows * s_.hidden).count() - gone;
    if (more > 0) b_.hold(wgrad, DType::fp8, more);
  }

  void bias_gradient(const std::string& task, const std::string& name, const Value& dlogits, bool last) {
    if (!bias_parts_) bias_parts_.emplace(b_, sink_, s_, name);
    b_.add(task + "output_bias_grad", BiasGrad{chunk_.tokens, s_.vocab_rows}, {dlogits}, {bias_parts_->next()});
    bias_parts_->add(task + "output_bias", last);
  }

  Value through_transform(const HeadSaved& t, const Value& n, const Value& to) {
    const std::int64_t h = s_.hidden, r = s_.rows;
    const Value dy = through_logits(0, t.dlogits, t.transformed, {});
    bias_gradient("", "head.output_bias", t.dlogits, true);
    const Value da = b_.scratch(dtype(), r * h), dd = b_.scratch(dtype(), r * h);
    open("head.norm.weight", s_.norm_bias ? "head.norm.bias" : "head.norm.weight");
    norm_backward(b_, s_, "head_norm", {dy, t.activated, t.norm_stats, w_("head.norm.weight")}, da,
                  {sink_.part("head.norm.weight"), s_.norm_bias ? sink_.part("head.norm.bias") : Value{}});
    sink_.close("head_norm");
    b_.add("transform_activation_backward", PointwiseBackward{r * h, s_.activation}, {da, t.dense}, {dd});
    dense_weights("head.transform", dd, n, r);
    const Value dn = to.elements > 0 ? to : b_.scratch(dtype(), r * h);
    b_.add("transform_dgrad", MatMul{r, h, h, false, false, false}, {dd, w_("head.transform.weight")}, {dn});
    return dn;
  }

  /// Gradients of a whole matrix and its bias: dy[rows, out], x[rows, hidden].
  void dense_weights(const std::string& name, const Value& dy, const Value& x, std::int64_t rows) {
    const std::int64_t out = dy.elements / rows;
    open(name + ".weight", name + ".bias");
    b_.add(name + "_wgrad", MatMul{out, s_.hidden, rows, true, false, false}, {dy, x}, {sink_.part(name + ".weight")});
    b_.add(name + "_bias_grad", BiasGrad{rows, out}, {dy}, {sink_.part(name + ".bias")});
    sink_.close(name);
  }

  /// Every tensor rank holds the whole classifier, so each adds the same gradient to its own rows.
  void pair_backward(const HeadSaved& t, const Value& dn) {
    const std::int64_t n = s_.batch, h = s_.hidden;
    const Value dpooled = b_.scratch(dtype(), n * h), dpooler = b_.scratch(dtype(), n * h), dfirst = b_.scratch(dtype(), n * h);
    b_.add("nsp_dgrad", MatMul{n, h, 2, false, false, false}, {t.dclass, w_("nsp.weight")}, {dpooled});
    dense_weights("nsp", t.dclass, t.pooled, n);
    b_.add("pooler_tanh_backward", PointwiseBackward{n * h, PointwiseKind::tanh}, {dpooled, t.pooler}, {dpooler});
    b_.add("pooler_dgrad", MatMul{n, h, h, false, false, false}, {dpooler, w_("pooler.weight")}, {dfirst});
    dense_weights("pooler", dpooler, t.first, n);
    if (!s_.sequence_parallel) {
      b_.add("take_first_backward", TakeFirstBackward{n, s_.seq, h}, {dfirst, dn}, {dn});
      return;
    }
    const Value all = b_.scratch(dtype(), s_.tokens * h);
    b_.add("no_pair_gradient", Fill{all.elements, dtype()}, {}, {all});
    b_.add("take_first_backward", TakeFirstBackward{n, s_.seq, h}, {dfirst, all}, {all});
    b_.add("add_pair", Accumulate{dn.elements, dtype(), dtype()}, {all.share(Group::tensor, s_.tensor), dn}, {dn});
  }

  void final_norm(const Value& dn, const Value& x, const HeadSaved& t, const Value& dx) {
    if (!trained(s_)) return norm_backward(b_, s_, "final_norm", {dn, x, t.stats, w_("final_norm.weight")}, dx);
    open("final_norm.weight", s_.norm_bias ? "final_norm.bias" : "final_norm.weight");
    norm_backward(b_, s_, "final_norm", {dn, x, t.stats, w_("final_norm.weight")}, dx,
                  {sink_.part("final_norm.weight"), s_.norm_bias ? sink_.part("final_norm.bias") : Value{}});
    sink_.close("final_norm");
  }

  const Shapes& s_;
  const Shapes chunk_;  ///< sizes of a loss in chunks; else those of all tokens
  bool first_loss_;
  RegionLayout layout_, output_layout_;
  TemplateBuilder b_;
  RegionValues w_;
  GradientSink sink_;
  Value output_;
  GradientSink output_sink_;
  GradientParts output_parts_;
  std::optional<GradientParts> bias_parts_;
};

}  // namespace

Template head_backward(const Shapes& s, bool first, bool first_loss) { return HeadBackward(s, first, first_loss).write(); }

}  // namespace tandem::lowering
