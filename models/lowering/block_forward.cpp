#include "models/lowering/block_saved.hpp"
#include "models/lowering/blocks.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Writes one pre-norm GPT block. Column-parallel matrices (qkv, fc1) keep their bias; row-parallel ones (proj, fc2) give a
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
    b_.add("ln1", LayerNorm{t, h, s_.norm_epsilon}, {x_, weight(p_.ln1_weight, h), weight(p_.ln1_bias, h)},
           {saved_.n1, saved_.ln1_stats});
    b_.add("qkv", MatMul{t, 3 * a, h, false, true, true},
           {saved_.n1, weight(p_.qkv_weight, 3 * a * h), weight(p_.qkv_bias, 3 * a)}, {saved_.qkv});
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
    b_.add("attention_add", BiasDropoutAdd{t, h, s_.hidden_dropout, true, DropoutSite::attention_output},
           {out, weight(p_.proj_bias, h), x_}, {saved_.x2});
  }

  void feed_forward() {
    const std::int64_t t = s_.tokens, h = s_.hidden, f = s_.ffn;
    b_.add("ln2", LayerNorm{t, h, s_.norm_epsilon}, {saved_.x2, weight(p_.ln2_weight, h), weight(p_.ln2_bias, h)},
           {saved_.n2, saved_.ln2_stats});
    b_.add("fc1", MatMul{t, f, h, false, true, true},
           {saved_.n2, weight(p_.fc1_weight, f * h), weight(p_.fc1_bias, f)}, {saved_.fc1});
    b_.add("activation", Pointwise{t * f, s_.activation}, {saved_.fc1}, {saved_.activated});
    const Value out = hidden_scratch();
    const auto fc2 =
        b_.add("fc2", MatMul{t, h, f, false, true, false}, {saved_.activated, weight(p_.fc2_weight, h * f)}, {out});
    tensor_all_reduce(b_, s_, out, "fc2", fc2);
    b_.add("mlp_add", BiasDropoutAdd{t, h, s_.hidden_dropout, true, DropoutSite::mlp_output},
           {out, weight(p_.fc2_bias, h), saved_.x2}, {y_});
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
