#include "models/lowering/templates/block_frame.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Writes the forward pass of one block. Column-parallel matrices (qkv, fc1) add their bias. Row-parallel ones (proj,
/// fc2) give a partial sum, so their bias is added once, after the sum (Megatron-LM, arXiv 1909.08053 section 3).
class BlockForward {
 public:
  BlockForward(const Shapes& s, std::string name)
      : s_(s), regions_(s), b_(std::move(name), s.dtypes.compute, s.fusion),
        weights_(block_slots(b_, s, regions_)), x_(s, hidden_slot(b_, s, "x")), memory_(memory_slot(b_, s, "memory")),
        y_(s, hidden_slot(b_, s, "y")),
        a_(b_, s, weights_, BlockSaved(s, saved_slots(b_, s), false)) {
    b_.products_in(s.product);
    b_.collectives_in_pieces(s.tensor_overlap);
    a_.attends_to(x_.state);
  }

  Template write() { return lay(), b_.finish(); }
  /// Whether only the stored tensors are needed, not the block's output.
  Template write_kept() {
    lay();
    if (s_.adapters.here()) b_.drop_unread(y_.state);  // what A of the last product gives is stored, what the product gives is not
    else b_.end_without(y_.state);
    return b_.finish();
  }

 private:
  void lay() {
    switch (s_.placement) {
      case NormPlacement::pre: case NormPlacement::sandwich: case NormPlacement::behind: pre(); break;
      case NormPlacement::post: post(); break;
      case NormPlacement::post_add: post_add(); break;
    }
  }
  void pre() {
    if (!s_.kind.mixes()) return feed_forward(x_.residual, y_.state);
    if (!s_.kind.feeds()) return attention(y_.state);
    const Value x2 = a_.state_place(), x1 = s_.is_decoder() ? a_.at().cross.x : x2;
    attention(x1);
    if (s_.is_decoder()) cross(x1, x2);
    feed_forward(x2, y_.state);
  }
  void post() {
    BlockSaved& t = a_.at();
    attention(t.sum1);
    norm(b_, s_, "ln1", t.sum1, norm_params(s_, "ln1", weights_.block), {t.x2, t.ln1_stats});
    feed_forward(t.x2, t.sum2);
    norm(b_, s_, "ln2", t.sum2, norm_params(s_, "ln2", weights_.block), {y_.state, t.ln2_stats});
  }
  /// The residual path has no norms. Each norm reads the residual sum beside that path.
  void post_add() {
    BlockSaved& t = a_.at();
    attention(t.sum1);
    norm(b_, s_, "ln1", t.sum1, norm_params(s_, "ln1", weights_.block), {t.x2, t.ln1_stats});
    feed_forward(t.sum1, y_.residual);
    b_.add("keep_sum", copy_of(t.sum2), {y_.residual}, {t.sum2});
    norm(b_, s_, "ln2", y_.residual, norm_params(s_, "ln2", weights_.block), {y_.state, t.ln2_stats});
  }

  /// What follows a row-parallel product. `norm`: sandwich norm of the sum over tensor ranks, whose input is stored in `out`.
  struct Add {
    DropoutSite site;
    std::string name;
    Value residual, y;
    std::string norm = {};
    Kept *out = nullptr, *stats = nullptr;
  };
  Add attention_add(const Value& y) {
    BlockSaved& t = a_.at();
    Add add{DropoutSite::attention_output, "attention_add", x_.residual, y};
    if (s_.sandwich) add.norm = "ln1_out", add.out = &t.attention_out, add.stats = &t.attention_out_stats;
    return add;
  }
  Add mlp_add(const Value& residual, const Value& y) {
    BlockSaved& t = a_.at();
    Add add{DropoutSite::mlp_output, "mlp_add", residual, y};
    if (s_.sandwich) add.norm = "ln2_out", add.out = &t.mlp_out, add.stats = &t.mlp_out_stats;
    return add;
  }
  void attention(const Value& y) {
    a_.mix();
    row("proj", s_.attention, a_.mixed(), attention_add(y));
  }

  /// Cross attention: a decoder's attention to the encoder's output.
  void cross(const Value& residual, const Value& y) {
    a_.cross(memory_);
    row("cross_proj", s_.attention, a_.at().cross.context,
        {DropoutSite::cross_attention_output, "cross_add", residual, y});
  }

  void feed_forward(const Value& residual, const Value& y) {
    const Add add = mlp_add(residual, y);
    s_.has_experts() ? experts(add) : row("fc2", s_.ffn, a_.activated(a_.mlp_input(x_.state)), add);
  }

  void experts(const Add& add);
  void branches(const Add& add);
  void norm_behind(const std::string& name, const Value& x, Kept& stats, const Value& y) {
    if (!stats.kept()) static_cast<Value&>(stats) = b_.scratch(s_.numerics.statistics, 2 * s_.rows);
    norm(b_, s_, name, x, norm_params(s_, name, weights_.block), {y, stats});
  }
  std::uint16_t shared_experts(const Value& out);

  void row(const std::string& name, std::int64_t inner, const Value& x, const Add& add) {
    const Value out = add.out != nullptr && !s_.sequence_parallel ? a_.out_place(*add.out)
                                                                   : b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden);
    const auto product = b_.add(name, MatMul{s_.tokens, s_.hidden, inner, false, true, false},
                                {x, a_.matrix(name)}, {out});
    a_.hold_wide(product, x);
    a_.adapt(name, x, inner, s_.hidden, out);
    finish(name, out, product, add);
  }
  void finish(const std::string& name, const Value& out, std::uint16_t product, const Add& add) {
    const Value own = add.out != nullptr && s_.sequence_parallel ? a_.out_place(*add.out) : Value{};
    join(name, tensor_sum(b_, s_, out, name, product, own).value, add);
  }
  /// Called when `sum` is complete.
  void join(const std::string& name, const Value& sum, const Add& add) {
    a_.add_to({add.site, add.name, name + ".bias"}, add.out != nullptr ? normed(sum, add) : sum, add.residual, add.y);
  }

  Value normed(const Value& sum, const Add& add) {
    const Value y = b_.scratch(s_.dtypes.compute, s_.rows * s_.hidden);
    norm_behind(add.norm, sum, *add.stats, y);
    return y;
  }

  const Shapes& s_;
  BlockRegions regions_;
  TemplateBuilder b_;
  BlockParams weights_;
  Hidden x_;
  Value memory_;
  Hidden y_;
  BlockActivations a_;
};

/// The shared experts' output is a partial sum, too.
void BlockForward::experts(const Add& add) {
  a_.route(a_.router_input(x_.state));
  a_.experts_return(a_.experts_input(x_.state));
  if (s_.branch_norms) return branches(add);
  const Value out = add.out != nullptr ? a_.out_place(*add.out) : b_.scratch(s_.dtypes.compute, s_.rows * s_.hidden);
  auto last = a_.combine(out);
  if (s_.shared_ffn > 0) last = shared_experts(out);
  const std::string name = s_.shared_ffn > 0 ? "shared.fc2" : "experts";
  // Without sequence parallelism a rank has all tokens' rows, so `out` is the input of a norm after it.
  s_.sequence_parallel ? join(name, out, add) : finish(name, out, last, add);
}

/// Experts beside an MLP: both sums are complete before their norms. The norm after the layer reads the sum of these.
void BlockForward::branches(const Add& add) {
  MoeSaved& m = a_.at().moe;
  const std::int64_t state = s_.rows * s_.hidden;
  const Value routed = a_.out_place(m.experts_out), normed = b_.scratch(s_.dtypes.compute, state);
  const auto last = a_.combine(routed);
  if (!s_.sequence_parallel) tensor_all_reduce(b_, s_, routed, "experts", last);
  norm_behind("experts_out", routed, m.experts_stats, normed);
  const Value x = a_.activated(a_.mlp_input(x_.state)), place = a_.out_place(m.shared_out);
  const Value all = s_.sequence_parallel ? b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden) : place;
  const auto product = b_.add("shared.fc2", MatMul{s_.tokens, s_.hidden, s_.shared_ffn, false, true, false},
                              {x, weights_.block("shared.fc2.weight")}, {all});
  a_.hold_wide(product, x);
  a_.adapt("shared.fc2", x, s_.shared_ffn, s_.hidden, all);
  const Value shared = tensor_sum(b_, s_, all, "shared.fc2", product, place).value, out = a_.out_place(*add.out);
  norm_behind("shared_out", shared, m.shared_stats, out);
  b_.add("add_branches", Accumulate{state, out.dtype, out.dtype}, {normed, out}, {out});
  join("branches", out, add);
}

std::uint16_t BlockForward::shared_experts(const Value& out) {
  const Value own = s_.shared_gate ? a_.shared_place() : Value{};
  const Value all = s_.shared_gate && !s_.sequence_parallel ? own : b_.scratch(s_.dtypes.compute, s_.tokens * s_.hidden);
  const Value x = a_.activated(a_.mlp_input(x_.state));
  const auto product = b_.add("shared.fc2", MatMul{s_.tokens, s_.hidden, s_.shared_ffn, false, true, false},
                              {x, weights_.block("shared.fc2.weight")}, {all});
  a_.hold_wide(product, x);
  a_.adapt("shared.fc2", x, s_.shared_ffn, s_.hidden, all);
  Value shared = s_.sequence_parallel ? tensor_sum(b_, s_, all, "shared.fc2", product, own).value : all;
  if (s_.shared_gate) shared = a_.gate_shared(shared, a_.own_mlp_input(x_.state));
  return b_.add("add_shared", Accumulate{out.elements, out.dtype, out.dtype}, {shared, out}, {out});
}

}  // namespace

Template block_forward(const Shapes& s) {
  return BlockForward(s, s.is_decoder() ? "decoder_forward" : "block_forward").write();
}
Template block_recompute(const Shapes& s) {
  return BlockForward(s, s.is_decoder() ? "decoder_recompute" : "block_recompute").write_kept();
}

}  // namespace tandem::lowering
