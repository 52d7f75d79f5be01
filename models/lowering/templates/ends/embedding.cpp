#include "models/lowering/templates/ends/embedding.hpp"

namespace tandem::lowering {
namespace {

/// Stored tensors of the embedding: only an embedding norm stores its input and statistics.
struct EmbedSaved {
  Value sum, stats;
  EmbedSaved(const Shapes& s, std::uint16_t slot) {
    SlotLayout at(slot);
    sum = at.add(s.dtypes.compute, s.rows * s.hidden);
    stats = at.add(s.numerics.statistics, 2 * s.rows);
  }
};

/// Positions are added before an embedding norm (arXiv 1810.04805), dropout comes after it.
bool position_is_last(const Shapes& s) { return !s.embedding_norm && (s.learned_positions || s.hidden_dropout > 0); }

class EmbedForward {
 public:
  explicit EmbedForward(const Shapes& s)
      : s_(s), word_layout_(word_region(s)), layout_(embedding_region(s)), position_layout_(position_region(s)),
        b_("embed_forward", s.dtypes.compute, s.fusion) {
    word_ = region_slot(b_, "word", MemoryKind::weights, word_layout_, s.dtypes.weights);
    if (layout_.elements() > 0)
      weights_ = region_slot(b_, "embedding", MemoryKind::weights, layout_, s.dtypes.weights);
    positions_ = position_slot(b_, s, position_layout_);
    tokens_ = b_.whole(b_.slot("tokens", MemoryKind::activations), DType::int32, s.tokens);
    if (s.token_types > 0) types_ = b_.whole(b_.slot("types", MemoryKind::activations), DType::int32, s.tokens);
  }

  Template write() {
    const Hidden y(s_, hidden_slot(b_, s_, "y"));
    const EmbedSaved saved(s_, b_.slot("saved", MemoryKind::activations));
    s_.embedding_norm ? with_norm(y.state, saved) : plain(y.state);
    if (s_.placement == NormPlacement::post_add)
      b_.add("no_residual", Fill{y.residual.elements, s_.dtypes.compute}, {}, {y.residual});
    return b_.finish();
  }

 private:
  Value scratch() { return b_.scratch(s_.dtypes.compute, s_.rows * s_.hidden); }

  /// Embeddings: rows of the word matrix, summed over its shards, plus token types; in `to`.
  void look_up(const Value& to) {
    look_up_words(b_, s_, tokens_, word_("word.weight"), to);
    if (s_.token_types == 0) return;
    const Value types = s_.sequence_parallel ? types_.share(Group::tensor, s_.tensor) : types_;
    b_.add("token_type", Embedding{s_.rows, s_.hidden, s_.token_types, true, true}, {types, weights_("type.weight"), to}, {to});
  }

  void plain(const Value& y) {
    const bool position_follows = position_is_last(s_);
    const Value x = position_follows ? scratch() : y;
    look_up(x);
    if (position_follows) add_position(x, y, s_.hidden_dropout);
  }

  void add_position(const Value& x, const Value& y, double dropout) {
    std::vector<Value> in{x};
    if (s_.learned_positions) in.push_back((s_.shared_positions() ? positions_ : weights_)("position.weight"));
    b_.add("position", position(s_, dropout, s_.learned_positions), std::move(in), {y});
  }

  void with_norm(const Value& y, const EmbedSaved& saved) {
    const Value x = s_.learned_positions ? scratch() : saved.sum;
    look_up(x);
    if (s_.learned_positions) add_position(x, saved.sum, 0);
    const Value n = s_.hidden_dropout > 0 ? scratch() : y;
    norm(b_, s_, "embedding_norm", saved.sum, norm_params(s_, "norm", weights_), {n, saved.stats});
    if (s_.hidden_dropout > 0) b_.add("dropout", position(s_, s_.hidden_dropout, false), {n}, {y});
  }

  const Shapes& s_;
  RegionLayout word_layout_, layout_, position_layout_;
  TemplateBuilder b_;
  RegionValues word_, weights_, positions_;
  Value tokens_, types_;
};

class EmbedBackward {
 public:
  EmbedBackward(const Shapes& s, bool first)
      : s_(s), word_layout_(word_region(s)), layout_(embedding_region(s)), position_layout_(position_region(s)),
        b_("embed_backward", s.dtypes.compute, s.fusion),
        word_sink_(b_, gradient_slot(b_, "word_gradients", word_layout_, s.written_gradients()), first),
        weights_(layout_.elements() > 0
                     ? region_slot(b_, "embedding", MemoryKind::weights, layout_, s.dtypes.weights)
                     : RegionValues()),
        sink_(b_, gradient_slot(b_, "embedding_gradients", layout_, s.written_gradients()), first),
        position_gradients_(position_gradient_slot(b_, s, position_layout_)) {
    tokens_ = b_.whole(b_.slot("tokens", MemoryKind::activations), DType::int32, s.tokens);
    if (s.token_types > 0) types_ = b_.whole(b_.slot("types", MemoryKind::activations), DType::int32, s.tokens);
  }

  Template write() {
    const EmbedSaved saved(s_, b_.slot("saved", MemoryKind::activations));
    const Hidden dy(s_, hidden_slot(b_, s_, "dy"));
    const Value dx = s_.embedding_norm ? through_norm(dy.state, saved)
                     : position_is_last(s_) ? through_position(dy.state, s_.hidden_dropout)
                                            : dy.state;
    if (s_.token_types > 0) type_gradient(dx);
    word_gradient(b_, s_, tokens_, dx, word_sink_);
    return b_.finish();
  }

 private:
  Value scratch() { return b_.scratch(s_.dtypes.compute, s_.rows * s_.hidden); }
  void open(std::string_view from, std::string_view to) { sink_.open(from, to, s_.numerics.parameter_gradient); }

  Value through_position(const Value& dy, double dropout) {
    const Value dx = scratch();
    if (s_.shared_positions()) {
      shared_position_backward(b_, s_, dy, dx, position_gradients_);
      return dx;
    }
    std::vector<Value> out{dx};
    if (s_.learned_positions) {
      open("position.weight", "position.weight");
      out.push_back(sink_.part("position.weight"));
    }
    b_.add("position_backward", position_backward(s_, dropout, s_.learned_positions), {dy}, out);
    if (s_.learned_positions) sink_.close("position");
    return dx;
  }

  Value through_norm(const Value& dy, const EmbedSaved& saved) {
    Value dn = dy;
    if (s_.hidden_dropout > 0) {
      dn = scratch();
      b_.add("dropout_backward", position_backward(s_, s_.hidden_dropout, false), {dy}, {dn});
    }
    const Value dx = scratch();
    open("norm.weight", s_.norm_bias ? "norm.bias" : "norm.weight");
    norm_backward(b_, s_, "embedding_norm", {dn, saved.sum, saved.stats, weights_("norm.weight")}, dx,
                  {sink_.part("norm.weight"), s_.norm_bias ? sink_.part("norm.bias") : Value{}});
    sink_.close("embedding_norm");
    return s_.learned_positions ? through_position(dx, 0) : dx;
  }

  void type_gradient(const Value& dx) {
    const Value types = s_.sequence_parallel ? types_.share(Group::tensor, s_.tensor) : types_;
    open("type.weight", "type.weight");
    b_.add("token_type_backward", EmbeddingBackward{s_.rows, s_.hidden, s_.token_types, true}, {types, dx},
           {sink_.part("type.weight")});
    sink_.close("token_type");
  }

  const Shapes& s_;
  RegionLayout word_layout_, layout_, position_layout_;
  TemplateBuilder b_;
  GradientSink word_sink_;
  RegionValues weights_;
  GradientSink sink_;
  RegionValues position_gradients_;
  Value tokens_, types_;
};

}  // namespace

Template embed_forward(const Shapes& s) { return EmbedForward(s).write(); }
Template embed_backward(const Shapes& s, bool first) { return EmbedBackward(s, first).write(); }

}  // namespace tandem::lowering
