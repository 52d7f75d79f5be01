#include "models/lowering/block_saved.hpp"
#include "models/lowering/blocks.hpp"
#include "models/lowering/gradient_sink.hpp"
#include "models/lowering/norm.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Mirrors BlockForward. The input gradient of a column-parallel matrix is a partial sum: it is reduced before the norm
/// below reads it, beside the weight gradient when tensor_overlap allows.
class BlockBackward {
 public:
  BlockBackward(const Shapes& s, bool first)
      : s_(s), b_("block_backward", s.dtypes.compute), p_(block_params(s)),
        weights_(b_.slot("weights", MemoryKind::weights)), gradients_(b_.slot("gradients", MemoryKind::gradients)),
        x_slot_(b_.slot("x", MemoryKind::activations)), saved_slot_(b_.slot("saved", MemoryKind::activations)),
        dy_slot_(b_.slot("dy", MemoryKind::activations)), dx_slot_(b_.slot("dx", MemoryKind::activations)),
        saved_(s, saved_slot_), sink_(b_, b_.whole(gradients_, s.dtypes.gradients, p_.elements), first) {}

  Template write() {
    const Value dx2 = feed_forward(hidden(dy_slot_));
    attention(dx2);
    return b_.finish();
  }

 private:
  Value hidden(std::uint16_t slot) const { return b_.whole(slot, s_.dtypes.compute, s_.tokens * s_.hidden); }
  Value weight(std::int64_t offset, std::int64_t elements) const {
    return b_.whole(weights_, s_.dtypes.weights, p_.elements).part(offset, elements);
  }
  /// Elements of a row-parallel matrix's bias.
  std::int64_t bias() const { return s_.linear_bias ? s_.hidden : 0; }
  Value scratch(std::int64_t elements) { return b_.scratch(s_.dtypes.compute, elements); }
  void open(std::int64_t first, std::int64_t end) { sink_.open(first, end - first, s_.dtypes.compute); }

  /// Undoes dropout and gives the bias gradient; without dropout the gradient passes through untouched.
  Value branch(const std::string& name, const Value& dy, const Value& dbias, DropoutSite site) {
    const std::int64_t t = s_.tokens, h = s_.hidden;
    if (s_.hidden_dropout == 0) {
      if (s_.linear_bias) b_.add(name + "_bias_grad", BiasGrad{t, h}, {dy}, {dbias});
      return dy;
    }
    const Value dx = scratch(t * h);
    std::vector<Value> out{dx};
    if (s_.linear_bias) out.push_back(dbias);
    b_.add(name + "_backward", BiasDropoutAddBackward{t, h, s_.hidden_dropout, s_.linear_bias, site}, {dy}, out);
    return dx;
  }

  /// dx = dy W, summed over the tensor group; the weight gradients wait for the sum unless they may overlap it.
  Value column_input_gradient(const std::string& name, const Value& dy, const Value& w, std::int64_t width) {
    const Value dn = scratch(s_.tokens * s_.hidden);
    const auto dgrad =
        b_.add(name + "_dgrad", MatMul{s_.tokens, s_.hidden, width, false, false, false}, {dy, w}, {dn});
    reduced_ = tensor_all_reduce(b_, s_, dn, name + "_dgrad", dgrad);
    return dn;
  }
  struct Column {
    std::int64_t weight, bias, end, width;
    bool has_bias;
  };
  void column_weight_gradient(const std::string& name, const Value& dy, const Value& input, const Column& c) {
    open(c.weight, c.end);
    const auto wgrad = b_.add(name + "_wgrad", MatMul{c.width, s_.hidden, s_.tokens, true, false, false}, {dy, input},
                              {sink_.part(c.weight, c.width * s_.hidden)});
    if (!s_.tensor_overlap) b_.depend(wgrad, reduced_);
    if (c.has_bias) b_.add(name + "_bias_grad", BiasGrad{s_.tokens, c.width}, {dy}, {sink_.part(c.bias, c.width)});
    sink_.close(name);
  }

  /// Through a layer norm: dx = norm'(dn) + residual, and the norm's own gradients.
  struct NormPlace {
    std::int64_t weight, bias, end;
  };
  void norm(const std::string& name, const NormGradient& n, const Value& dx, const NormPlace& at) {
    open(at.weight, at.end);
    norm_backward(b_, s_, name, n, dx, {sink_.part(at.weight, s_.hidden), sink_.part(at.bias, s_.rms ? 0 : s_.hidden)});
    sink_.close(name);
  }

  Value feed_forward(const Value& dy) {
    const std::int64_t t = s_.tokens, h = s_.hidden, f = s_.ffn;
    open(p_.fc2_weight, p_.elements);
    const Value d2 = branch("mlp_add", dy, sink_.part(p_.fc2_bias, bias()), DropoutSite::mlp_output);
    const Value da = scratch(t * f);
    b_.add("fc2_dgrad", MatMul{t, f, h, false, false, false}, {d2, weight(p_.fc2_weight, h * f)}, {da});
    b_.add("fc2_wgrad", MatMul{h, f, t, true, false, false}, {d2, saved_.activated},
           {sink_.part(p_.fc2_weight, h * f)});
    sink_.close("fc2");
    const Value df = scratch(t * s_.fc1);
    const Op activation =
        s_.gated ? Op(GatedPointwiseBackward{t, f, s_.gate}) : Op(PointwiseBackward{t * f, s_.activation});
    b_.add("activation_backward", activation, {da, saved_.fc1}, {df});
    const Value dn = column_input_gradient("fc1", df, weight(p_.fc1_weight, s_.fc1 * h), s_.fc1);
    column_weight_gradient("fc1", df, saved_.n2, {p_.fc1_weight, p_.fc1_bias, p_.fc2_weight, s_.fc1, s_.linear_bias});
    const Value dx2 = scratch(t * h);
    norm("ln2", {dn, saved_.x2, saved_.ln2_stats, weight(p_.ln2_weight, h), &dy}, dx2,
         {p_.ln2_weight, p_.ln2_bias, p_.fc1_weight});
    return dx2;
  }

  void attention(const Value& dx2) {
    const std::int64_t t = s_.tokens, h = s_.hidden, a = s_.attention;
    open(p_.proj_weight, p_.ln2_weight);
    const Value d2 = branch("attention_add", dx2, sink_.part(p_.proj_bias, bias()), DropoutSite::attention_output);
    const Value dcontext = scratch(t * a);
    b_.add("proj_dgrad", MatMul{t, a, h, false, false, false}, {d2, weight(p_.proj_weight, h * a)}, {dcontext});
    b_.add("proj_wgrad", MatMul{h, a, t, true, false, false}, {d2, saved_.context}, {sink_.part(p_.proj_weight, h * a)});
    sink_.close("proj");
    const Value dqkv = core(dcontext);
    const Value dn = column_input_gradient("qkv", dqkv, weight(p_.qkv_weight, s_.qkv() * h), s_.qkv());
    column_weight_gradient("qkv", dqkv, saved_.n1, {p_.qkv_weight, p_.qkv_bias, p_.proj_weight, s_.qkv(), s_.qkv_bias});
    norm("ln1", {dn, hidden(x_slot_), saved_.ln1_stats, weight(p_.ln1_weight, h), &dx2}, hidden(dx_slot_),
         {p_.ln1_weight, p_.ln1_bias, p_.qkv_weight});
  }

  Value core(const Value& dcontext) {
    const AttentionDims dims = s_.attention_dims();
    const Value dprobs = scratch(saved_.probs.elements), dscores = scratch(saved_.probs.elements);
    const Value dqkv = scratch(s_.tokens * s_.qkv());
    b_.add("context_backward", AttentionContextBackward{dims}, {dcontext, saved_.dropped, saved_.qkv}, {dprobs, dqkv});
    b_.add("softmax_backward", AttentionSoftmaxBackward{dims, s_.attention_dropout}, {dprobs, saved_.probs}, {dscores});
    b_.add("scores_backward", AttentionScoresBackward{dims}, {dscores, saved_.qkv, dqkv}, {dqkv});
    if (s_.rotary) b_.add("rotary_backward", Rotary{dims, s_.rope_theta, true}, {dqkv}, {dqkv});
    return dqkv;
  }

  const Shapes& s_;
  TemplateBuilder b_;
  BlockParams p_;
  std::uint16_t weights_, gradients_, x_slot_, saved_slot_, dy_slot_, dx_slot_;
  BlockSaved saved_;
  GradientSink sink_;
  std::uint16_t reduced_ = 0;
};

}  // namespace

Template block_backward(const Shapes& s, bool first) { return BlockBackward(s, first).write(); }

}  // namespace tandem::lowering
