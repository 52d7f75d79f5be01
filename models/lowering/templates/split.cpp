// Splits tasks that the fusion set performs in several kernels, each with its own passes over memory.

#include <cmath>

#include "models/base/error.hpp"
#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/templates/draft.hpp"

namespace tandem::lowering {
namespace {

using List = std::vector<Value>;

bool same_place(const Value& a, const Value& b) {
  return a.slot == b.slot && a.scratch == b.scratch && a.offset == b.offset && a.elements == b.elements;
}

class Splitter {
 public:
  Splitter(DraftTemplate& t, const Fusion& f) : t_(t), f_(f) {}

  void run() {
    const std::vector<Draft> whole = std::move(t_.drafts);
    for (const Draft& d : whole) {
      now_ = &d;
      first_ = done_.size();
      std::visit([&](const auto& op) { split(op); }, d.op);
      done_[first_].after = d.after;
      done_.back().id = d.id;
      done_[first_].held_ahead = d.held_ahead;
      done_.back().held = d.held;
    }
    t_.drafts = std::move(done_);
  }

 private:
  const Value& in(std::size_t i) const { return now_->in[i]; }
  const Value& out(std::size_t i) const { return now_->out[i]; }
  void keep() { done_.push_back(*now_); }
  /// Appends one kernel of the task.
  void put(const std::string& suffix, const Op& op, List inputs, List outputs) {
    put(suffix, op, std::move(inputs), std::move(outputs), now_->dtype);
  }
  void put(const std::string& suffix, const Op& op, List inputs, List outputs, DType dtype) {
    done_.push_back({now_->name + suffix, op, dtype, now_->stream, std::move(inputs), std::move(outputs), -1, {}});
  }
  Value scratch(std::int64_t elements) { return t_.new_scratch(now_->dtype, elements); }

  void split(const auto&) { keep(); }

  // ---- attention ----

  /// y *= the factor of scores.
  void scale(const std::string& suffix, const AttentionDims& d, const Value& scores) {
    const std::int64_t rows = d.batch * d.heads * d.seq;
    put(suffix, Elementwise{rows, d.key_count(), ElementwiseKind::multiply, Spread::none, d.score_factor()}, {scores}, {scores});
  }
  void split(const AttentionScores& o) {
    if (!f_.scores_scaled_apart) return keep();
    put("", AttentionScores{o.dims, false}, now_->in, now_->out);
    scale("_scale", o.dims, out(0));
  }
  void split(const AttentionScoresBackward& o) {
    if (!f_.scores_scaled_apart) return keep();
    scale("_scale", o.dims, in(0));
    put("", AttentionScoresBackward{o.dims, false}, now_->in, now_->out);
  }
  void split(const AttentionSoftmax& o) {
    const bool drops = o.dropout > 0;
    if (!f_.mask_apart && !(drops && f_.attention_dropout_apart)) return keep();
    const Value& probs = out(0);
    AttentionSoftmax op{o.dims, 0, o.alibi, o.relative_buckets, o.site};
    if (f_.mask_apart) {
      op.part = SoftmaxPart::mask;
      put("_mask", op, now_->in, {probs});
      const AttentionSoftmax softmax{o.dims, 0, false, 0, o.site, SoftmaxPart::softmax};
      if (!widens_softmax()) put("", softmax, {probs}, {probs});
      else wide_softmax(softmax, probs);
    } else {
      put("", op, now_->in, {probs});
    }
    if (drops)
      put("_dropout", AttentionSoftmax{o.dims, o.dropout, false, 0, o.site, SoftmaxPart::dropout}, {probs}, {out(1)});
  }
  void split(const AttentionSoftmaxBackward& o) {
    const bool drops = f_.attention_dropout_apart && o.dropout > 0;
    const bool wide = f_.mask_apart && widens_softmax() && o.relative_buckets == 0;
    if (!drops && !wide) return keep();
    if (drops) put("_dropout", AttentionSoftmaxBackward{o.dims, o.dropout, 0, o.site, SoftmaxPart::dropout}, {in(0)}, {in(0)});
    const AttentionSoftmaxBackward op{o.dims, drops ? 0 : o.dropout, o.relative_buckets, o.site};
    wide ? wide_softmax(op) : put("", op, now_->in, now_->out);
  }
  bool widens_softmax() const { return f_.softmax_widened && bits(now_->dtype) == 16; }
  /// PyTorch's softmax of bf16 in fp32: a cast before and a cast after it (aten/src/ATen/native/SoftMax.cpp, softmax).
  void wide_softmax(const AttentionSoftmax& op, const Value& probs) {
    const Value all = widened("_widen", probs);
    put("", op, {all}, {all}, wide());
    put("_narrow", Accumulate{all.elements, all.dtype, probs.dtype, true}, {all}, {probs});
  }
  /// PyTorch stores the wide probabilities. Here they are only held, so they are recomputed: one pass more than PyTorch's.
  void wide_softmax(const AttentionSoftmaxBackward& op) {
    const Value gradient = widened("_widen", in(0)), probs = widened("_widen_probs", in(1));
    put("", op, {gradient, probs}, {gradient}, wide());
    put("_narrow", Accumulate{gradient.elements, gradient.dtype, out(0).dtype, true}, {gradient}, {out(0)});
  }
  /// A negation and a concatenation count as one kernel.
  void split(const Rotary& o) {
    if (!f_.rotary_apart) return keep();
    for (const bool keys : {false, true}) {
      if (o.heads == (keys ? RotaryHeads::queries : RotaryHeads::keys)) continue;
      Rotary op = o;
      op.heads = keys ? RotaryHeads::keys : RotaryHeads::queries;
      const std::string name = keys ? "_keys" : "_queries";
      const Value t = scratch(op.elements()), qkv = in(0);
      const auto part = [&](RotaryPart p, const char* word, List inputs, const Value& to) {
        op.part = p;
        put(name + word, op, std::move(inputs), {to});
      };
      part(RotaryPart::swap, "_swap", {qkv}, t);
      part(RotaryPart::cosine, "_cosine", {qkv}, qkv);
      part(RotaryPart::sine, "_sine", {t}, t);
      part(RotaryPart::add, "_add", {t, qkv}, qkv);
    }
  }

  // ---- behind a sublayer ----

  /// A linear layer adds its own bias, unless a sum over ranks came between.
  void add_bias(const BiasDropoutAdd& o) {
    const bool product = first_ > 0 && same_place(done_[first_ - 1].out[0], in(0));
    MatMul* matmul = product ? std::get_if<MatMul>(&done_[first_ - 1].op) : nullptr;
    if (matmul == nullptr || matmul->bias)
      return put("_bias", Elementwise{o.rows, o.cols, ElementwiseKind::add, Spread::column}, {in(0), in(1)}, {in(0)});
    matmul->bias = true;
    done_[first_ - 1].in.push_back(in(1));
  }
  void split(const BiasDropoutAdd& o) {
    if (!f_.dropout_apart || !o.residual) return keep();
    if (o.bias) add_bias(o);
    Value x = in(0);
    if (o.dropout > 0) {
      const Value dropped = scratch(o.rows * o.cols);
      put("_dropout", BiasDropoutAdd{o.rows, o.cols, o.dropout, false, o.site, o.shard, false}, {x}, {dropped});
      x = dropped;
    }
    put("", Elementwise{o.rows, o.cols, ElementwiseKind::add}, {x, now_->in.back()}, {out(0)});
  }
  void split(const BiasDropoutAddBackward& o) {
    if (!f_.dropout_apart || !o.bias) return keep();
    put("", BiasDropoutAddBackward{o.rows, o.cols, o.dropout, false, o.site, o.shard}, {in(0)}, {out(0)});
    put("_bias_grad", BiasGrad{o.rows, o.cols}, {out(0)}, {out(1)});
  }
  void split(const GatedPointwise& o) {
    if (!f_.gate_apart) return keep();
    const Value a = scratch(o.rows * o.cols);
    put("_gate", GatedPointwise{o.rows, o.cols, o.kind, GatePart::activation}, {in(0)}, {a});
    put("", GatedPointwise{o.rows, o.cols, o.kind, GatePart::product}, {a, in(0)}, {out(0)});
  }
  /// The activation's output is not stored, so it is recomputed.
  void split(const GatedPointwiseBackward& o) {
    if (!f_.gate_apart) return keep();
    const Value a = scratch(o.rows * o.cols), da = scratch(o.rows * o.cols), &dy = in(0), &x = in(1), &dx = out(0);
    put("_gate", GatedPointwise{o.rows, o.cols, o.kind, GatePart::activation}, {x}, {a});
    put("_product", GatedPointwiseBackward{o.rows, o.cols, o.kind, GatePart::product}, {dy, a, x}, {da, dx});
    put("", GatedPointwiseBackward{o.rows, o.cols, o.kind, GatePart::activation}, {da, x, dx}, {dx});
  }

  // ---- norms ----

  /// RMSNorm is computed in fp32 where activations are 16 bits wide.
  DType wide() const { return bits(now_->dtype) == 16 ? DType::fp32 : now_->dtype; }
  Value wide_scratch(std::int64_t elements) { return t_.new_scratch(wide(), elements); }
  Value widened(const std::string& suffix, const Value& v) {
    if (wide() == now_->dtype) return v;
    const Value to = wide_scratch(v.elements);
    put(suffix, Accumulate{v.elements, v.dtype, to.dtype, true}, {v}, {to});
    return to;
  }
  Value narrowed(const std::string& suffix, const Value& v) {
    if (wide() == now_->dtype) return v;
    const Value to = scratch(v.elements);
    put(suffix, Accumulate{v.elements, v.dtype, to.dtype, true}, {v}, {to});
    return to;
  }
  /// 1 / root mean square of every row, in place of the statistics.
  Value root(const Value& stats) const {
    Value r = stats;
    r.elements /= 2;
    r.dtype = wide();
    return r;
  }
  struct Rows {
    std::int64_t rows, cols;
    Elementwise op(ElementwiseKind kind, Spread other = Spread::full, double factor = 1) const {
      return {rows, cols, kind, other, factor};
    }
  };

  bool widens_norms() const { return f_.norm_widened && wide() != now_->dtype; }

  void split(const LayerNorm& o) {
    if (widens_norms()) {
      List inputs = now_->in;
      inputs[0] = widened("_widen", in(0));
      return put("", o, std::move(inputs), now_->out);
    }
    if (!f_.rms_apart || !o.rms) return keep();
    const Rows n{o.rows, o.cols};
    const Value x = widened("_widen", in(0)), square = wide_scratch(x.elements), normed = wide_scratch(x.elements),
                r = root(out(1));
    put("_square", n.op(ElementwiseKind::square, Spread::none), {x}, {square}, wide());
    put("_root", RowReduce{o.rows, o.cols, RowReduceKind::inverse_root_of_mean, o.epsilon}, {square}, {r}, wide());
    put("_normalise", n.op(ElementwiseKind::multiply, Spread::row), {x, r}, {normed}, wide());
    const Value narrow = narrowed("_narrow", normed);
    put("", n.op(ElementwiseKind::multiply, Spread::column), {narrow, in(1)}, {out(0)});
  }

  void split(const LayerNormBackward& o) {
    if (f_.rms_apart && o.rms) {
      rms_backward(o);
    } else if (f_.norm_gradients_apart) {
      const List gradients(now_->out.begin() + 1, now_->out.end());
      if (o.part == NormPart::whole)
        put("_parameters", LayerNormBackward{o.rows, o.cols, false, o.rms, NormPart::parameters, o.plain}, {in(0), in(1), in(2)},
            gradients);
      const bool joined = o.add_residual && !f_.residual_gradient_apart;
      List inputs{in(0), in(1), in(2), in(3)};
      if (joined) inputs.push_back(in(4));
      put("", LayerNormBackward{o.rows, o.cols, joined, o.rms, NormPart::input, o.plain}, std::move(inputs), {out(0)});
      if (joined) return;
    } else if (widens_norms()) {
      List gradients = now_->out;
      gradients[0] = wide_scratch(o.rows * o.cols);
      put("", LayerNormBackward{o.rows, o.cols, false, o.rms, o.part, o.plain}, {in(0), in(1), in(2), in(3)}, gradients);
      put("_narrow", Accumulate{o.rows * o.cols, wide(), now_->dtype, true}, {gradients[0]}, {out(0)});
    } else {
      return keep();
    }
    if (o.add_residual) put("_residual", Elementwise{o.rows, o.cols, ElementwiseKind::add}, {out(0), in(4)}, {out(0)});
  }

  /// With n = r x: dgamma = sum of dy n; and with g = dy gamma: dx = r g - x r^3 (sum of g x) / cols.
  void rms_backward(const LayerNormBackward& o) {
    const Rows n{o.rows, o.cols}, column{o.rows, 1};
    const std::int64_t all = o.rows * o.cols;
    const Value &dy = in(0), &gamma = in(3), r = root(in(2));
    const Value x = widened("_widen", in(1));
    if (o.part == NormPart::whole) {
      const Value normed = wide_scratch(all);
      put("_normalise", n.op(ElementwiseKind::multiply, Spread::row), {x, r}, {normed}, wide());
      const Value narrow = narrowed("_narrow", normed), product = scratch(all);
      put("_weight_product", n.op(ElementwiseKind::multiply), {dy, narrow}, {product});
      put("_weight_sum", BiasGrad{o.rows, o.cols}, {product}, {out(1)});
    }
    const Value g = scratch(all);
    put("_scale", n.op(ElementwiseKind::multiply, Spread::column), {dy, gamma}, {g});
    const Value wide_g = widened("_widen_gradient", g), along = wide_scratch(all);
    put("_along", n.op(ElementwiseKind::multiply), {wide_g, x}, {along}, wide());
    const Value sum = wide_scratch(o.rows), power = wide_scratch(o.rows);
    put("_sum", RowReduce{o.rows, o.cols, RowReduceKind::sum}, {along}, {sum}, wide());
    put("_root_square", column.op(ElementwiseKind::square, Spread::none), {r}, {power}, wide());
    put("_root_cube", column.op(ElementwiseKind::multiply), {power, r}, {power}, wide());
    put("_mean", column.op(ElementwiseKind::multiply, Spread::full, 1 / static_cast<double>(o.cols)), {sum, power},
        {sum}, wide());
    const Value straight = wide_scratch(all), back = wide_scratch(all);
    put("_straight", n.op(ElementwiseKind::multiply, Spread::row), {wide_g, r}, {straight}, wide());
    put("_back", n.op(ElementwiseKind::multiply, Spread::row), {x, sum}, {back}, wide());
    if (wide() == now_->dtype) return put("", n.op(ElementwiseKind::subtract), {straight, back}, {out(0)});
    put("_difference", n.op(ElementwiseKind::subtract), {straight, back}, {straight}, wide());
    put("", Accumulate{all, straight.dtype, out(0).dtype, true}, {straight}, {out(0)});
  }

  // ---- gradients ----

  void split(const Accumulate& o) {
    if (!f_.gradients_cast_apart || o.source != DType::bf16 || o.destination != DType::fp32 || !adds_gradient(t_, *now_))
      return keep();
    const Value wide = t_.new_scratch(o.destination, o.elements);
    put("_cast", Accumulate{o.elements, o.source, o.destination, true}, {in(0)}, {wide});
    put("", Accumulate{o.elements, o.destination, o.destination}, {wide, in(1)}, {out(0)});
  }

  DraftTemplate& t_;
  const Fusion& f_;
  const Draft* now_ = nullptr;
  std::vector<Draft> done_;
  std::size_t first_ = 0;  ///< index in `done_` of this task's first kernel
};

}  // namespace

void split_tasks(DraftTemplate& t, const Fusion& f) { Splitter(t, f).run(); }

}  // namespace tandem::lowering
