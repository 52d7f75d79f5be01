#include "models/lowering/block_saved.hpp"
#include "models/lowering/blocks.hpp"
#include "models/lowering/norm.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Writes one pre-norm decoder block. Column-parallel matrices (qkv, fc1) keep their bias; row-parallel ones (proj, fc2) give a
/// partial sum, so their bias is added after the reduction, once (Megatron-LM, arXiv 1909.08053 section 3).
class BlockForward {
 public:
  explicit BlockForward(const Shapes& s)
      : s_(s), b_("block_forward", s.dtypes.compute), p_(block_params(s)),
        weights_(b_.slot("weights", MemoryKind::weights)), x_slot_(b_.slot("x", MemoryKind::activations)),
        y_slot_(b_.slot("y", MemoryKind::activations)), saved_slot_(b_.slot("saved", MemoryKind::activations)),
        x_(b_.whole(x_slot_, s.dtypes.compute, s.tokens * s.hidden)),
        y_(b_.whole(y_slot_, s.dtypes.compute, s.tokens * s.hidden)), saved_(s, saved_slot_) {}

  Template write() {
    attention();
    feed_forward();
    return b_.finish();
  }

 private:
  Value weight(std::int64_t offset, std::int64_t elements) const {
    return b_.whole(weights_, s_.dtypes.weights, p_.elements).part(offset, elements);
  }
  Value hidden_scratch() { return b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden); }

  void attention() {
    const std::int64_t t = s_.tokens, h = s_.hidden, a = s_.attention;
    const AttentionDims dims = s_.attention_dims();
    norm(b_, s_, "ln1", x_, {weight(p_.ln1_weight, h), shift(p_.ln1_bias)}, {saved_.n1, saved_.ln1_stats});
    column("qkv", saved_.n1, {p_.qkv_weight, p_.qkv_bias, s_.qkv(), s_.qkv_bias}, saved_.qkv);
    if (s_.rotary) b_.add("rotary", Rotary{dims, s_.rope_theta}, {saved_.qkv}, {saved_.qkv});
    const Value scores = b_.scratch(s_.dtypes.compute, saved_.probs.elements);
    b_.add("scores", AttentionScores{dims}, {saved_.qkv}, {scores});
    std::vector<Value> probs{saved_.probs};
    if (s_.attention_dropout > 0) probs.push_back(saved_.dropped);
    b_.add("softmax", AttentionSoftmax{dims, s_.attention_dropout, s_.alibi}, {scores}, probs);
    b_.add("context", AttentionContext{dims}, {saved_.dropped, saved_.qkv}, {saved_.context});
    const Value out = hidden_scratch();
    const auto proj =
        b_.add("proj", MatMul{t, h, a, false, true, false}, {saved_.context, weight(p_.proj_weight, h * a)}, {out});
    tensor_all_reduce(b_, s_, out, "proj", proj);
    residual("attention_add", DropoutSite::attention_output, {out, p_.proj_bias, x_, saved_.x2});
  }

  void feed_forward() {
    const std::int64_t t = s_.tokens, h = s_.hidden, f = s_.ffn;
    norm(b_, s_, "ln2", saved_.x2, {weight(p_.ln2_weight, h), shift(p_.ln2_bias)}, {saved_.n2, saved_.ln2_stats});
    column("fc1", saved_.n2, {p_.fc1_weight, p_.fc1_bias, s_.fc1, s_.linear_bias}, saved_.fc1);
    const Op activation = s_.gated ? Op(GatedPointwise{t, f, s_.gate}) : Op(Pointwise{t * f, s_.activation});
    b_.add("activation", activation, {saved_.fc1}, {saved_.activated});
    const Value out = hidden_scratch();
    const auto fc2 =
        b_.add("fc2", MatMul{t, h, f, false, true, false}, {saved_.activated, weight(p_.fc2_weight, h * f)}, {out});
    tensor_all_reduce(b_, s_, out, "fc2", fc2);
    residual("mlp_add", DropoutSite::mlp_output, {out, p_.fc2_bias, saved_.x2, y_});
  }

  /// A norm's shift, of which RMSNorm has none.
  Value shift(std::int64_t offset) const { return weight(offset, s_.rms ? 0 : s_.hidden); }

  struct Column {
    std::int64_t weight, bias, width;
    bool has_bias;
  };
  /// y = x W^T (+ b) with the output columns cut over tensor ranks.
  void column(const std::string& name, const Value& x, const Column& c, const Value& y) {
    std::vector<Value> in{x, weight(c.weight, c.width * s_.hidden)};
    if (c.has_bias) in.push_back(weight(c.bias, c.width));
    b_.add(name, MatMul{s_.tokens, c.width, s_.hidden, false, true, c.has_bias}, std::move(in), {y});
  }

  struct Residual {
    Value x;
    std::int64_t bias;
    Value residual, y;
  };
  void residual(const std::string& name, DropoutSite site, const Residual& r) {
    std::vector<Value> in{r.x};
    if (s_.linear_bias) in.push_back(weight(r.bias, s_.hidden));
    in.push_back(r.residual);
    b_.add(name, BiasDropoutAdd{s_.tokens, s_.hidden, s_.hidden_dropout, s_.linear_bias, site}, std::move(in), {r.y});
  }

  const Shapes& s_;
  TemplateBuilder b_;
  BlockParams p_;
  std::uint16_t weights_, x_slot_, y_slot_, saved_slot_;
  Value x_, y_;
  BlockSaved saved_;
};

}  // namespace

Template block_forward(const Shapes& s) { return BlockForward(s).write(); }

}  // namespace tandem::lowering
