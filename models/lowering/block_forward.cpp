#include "models/lowering/block_frame.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Writes one block. Column-parallel matrices (qkv, fc1) keep their bias; row-parallel ones (proj, fc2) give a partial sum, so
/// their bias is added after the sum, once (Megatron-LM, arXiv 1909.08053 section 3).
class BlockForward {
 public:
  BlockForward(const Shapes& s, bool moe)
      : s_(s), moe_(moe), regions_(s, moe), b_(s.is_decoder() ? "decoder_forward" : "block_forward", s.dtypes.compute, s.fusion),
        weights_(block_slots(b_, s, regions_)), x_(s, hidden_slot(b_, s, "x")), memory_(memory_slot(b_, s, "memory")),
        y_(s, hidden_slot(b_, s, "y")),
        a_(b_, s, weights_, BlockSaved(s, moe, b_.slot("saved", MemoryKind::activations), false)) {
    b_.products_in(s.product);
  }

  Template write() {
    switch (s_.placement) {
      case NormPlacement::pre: pre(); break;
      case NormPlacement::post: post(); break;
      case NormPlacement::post_add: post_add(); break;
    }
    return b_.finish();
  }

 private:
  void pre() {
    const Value x2 = a_.at().x2, x1 = s_.is_decoder() ? a_.at().cross.x : x2;
    attention(a_.normed(1, x_.state), x_.state, x1);
    if (s_.is_decoder()) cross(x1, x2);
    feed_forward(a_.normed(2, x2), x2, y_.state);
  }
  void post() {
    BlockSaved& t = a_.at();
    attention(a_.plain(1, x_.state), x_.state, t.sum1);
    norm(b_, s_, "ln1", t.sum1, norm_params(s_, "ln1", weights_.block), {t.x2, t.ln1_stats});
    feed_forward(a_.plain(2, t.x2), t.x2, t.sum2);
    norm(b_, s_, "ln2", t.sum2, norm_params(s_, "ln2", weights_.block), {y_.state, t.ln2_stats});
  }
  /// Sums are never normalised on the residual's way: every norm reads it from the side.
  void post_add() {
    BlockSaved& t = a_.at();
    attention(a_.plain(1, x_.state), x_.residual, t.sum1);
    norm(b_, s_, "ln1", t.sum1, norm_params(s_, "ln1", weights_.block), {t.x2, t.ln1_stats});
    feed_forward(a_.plain(2, t.x2), t.sum1, y_.residual);
    b_.add("keep_sum", copy_of(t.sum2), {y_.residual}, {t.sum2});
    norm(b_, s_, "ln2", y_.residual, norm_params(s_, "ln2", weights_.block), {y_.state, t.ln2_stats});
  }

  /// What follows a row-parallel product.
  struct Add {
    DropoutSite site;
    std::string name;
    Value residual, y;
  };
  void attention(const Value& input, const Value& residual, const Value& y) {
    a_.qkv(input);
    a_.core();
    row("proj", s_.attention, a_.at().context, {DropoutSite::attention_output, "attention_add", residual, y});
  }

  /// A decoder's attention to the encoder's output.
  void cross(const Value& residual, const Value& y) {
    a_.cross(memory_);
    row("cross_proj", s_.attention, a_.at().cross.context,
        {DropoutSite::cross_attention_output, "cross_add", residual, y});
  }

  void feed_forward(const Value& input, const Value& residual, const Value& y) {
    const Add add{DropoutSite::mlp_output, "mlp_add", residual, y};
    moe_ ? experts(input, add) : row("fc2", s_.ffn, a_.activated(input), add);
  }

  void experts(const Value& input, const Add& add);

  void row(const std::string& name, std::int64_t inner, const Value& x, const Add& add) {
    const Value out = b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden);
    const auto product = b_.add(name, MatMul{s_.tokens, s_.hidden, inner, false, true, false},
                                {x, weights_.block(name + ".weight")}, {out});
    finish(name, out, product, add);
  }
  void finish(const std::string& name, const Value& out, std::uint16_t product, const Add& add) {
    const Summed sum = tensor_sum(b_, s_, out, name, product);
    const bool bias = weights_.block.layout().has(name + ".bias");
    std::vector<Value> in{sum.value};
    if (bias) in.push_back(weights_.block(name + ".bias"));
    in.push_back(add.residual);
    b_.add(add.name, BiasDropoutAdd{s_.rows, s_.hidden, s_.hidden_dropout, bias, add.site, s_.sequence_parallel},
           std::move(in), {add.y});
  }

  const Shapes& s_;
  bool moe_;
  BlockRegions regions_;
  TemplateBuilder b_;
  BlockParams weights_;
  Hidden x_;
  Value memory_;
  Hidden y_;
  BlockActivations a_;
};

/// Rows that come back from experts are partial sums over tensor ranks, and so is what the shared experts give.
void BlockForward::experts(const Value& input, const Add& add) {
  a_.route(input);
  a_.experts_return(input);
  const Value out = b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden);
  const auto combine = b_.add("combine", MoeCombine{s_.moe_dims()},
                              {a_.at().moe.returned, a_.at().moe.slots, a_.at().moe.weights}, {out});
  if (s_.shared_ffn == 0) return finish("experts", out, combine, add);
  const Value shared = b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden);
  b_.add("shared.fc2", MatMul{s_.tokens, s_.hidden, s_.shared_ffn, false, true, false},
         {a_.activated(input), weights_.block("shared.fc2.weight")}, {shared});
  const auto both = b_.add("add_shared", Accumulate{out.elements, out.dtype, out.dtype}, {shared, out}, {out});
  finish("shared.fc2", out, both, add);
}

}  // namespace

Template block_forward(const Shapes& s, bool moe) { return BlockForward(s, moe).write(); }

}  // namespace tandem::lowering
