#pragma once
// Word embedding: looks words up in a matrix whose rows are cut over tensor ranks. Learned positions are added to it, then dropout;
// if encoder and decoder share the table, each use adds to one gradient, which starts at zero.

#include "models/lowering/templates/block_frame.hpp"
#include "models/lowering/templates/gradient_sink.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

/// Factor of looked-up words or of their gradient.
inline Elementwise embedding_scale(const Shapes& s) {
  return {s.rows, s.hidden, ElementwiseKind::multiply, Spread::none, s.embedding_scale};
}

/// Appends `to` = scaled rows of `table` (this rank's vocabulary shard) for all tokens, summed over the tensor ranks.
inline void look_up_words(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& table, const Value& to) {
  const Value all = s.sequence_parallel ? b.scratch(s.dtypes.compute, s.tokens * s.hidden) : to;
  const auto found = b.add("embedding", Embedding{s.tokens, s.hidden, s.vocab_rows}, {tokens, table}, {all});
  tensor_sum(b, s, all, "embedding", found, to);
  if (s.embedding_scale != 1) b.add("embedding_scale", embedding_scale(s), {to}, {to});
}

/// Appends the gradient of the rows of the word matrix for all tokens, and returns it. `dx`: gradient of the scaled rows, this
/// rank's rows. Names of tasks begin with `prefix`.
inline Value found_gradient(TemplateBuilder& b, const Shapes& s, const Value& dx, const std::string& prefix,
                            const std::string& gathered) {
  if (s.embedding_scale == 1) return tensor_gather(b, s, dx, gathered);
  const Value scaled = b.scratch(s.dtypes.compute, s.rows * s.hidden);
  b.add(prefix + "embedding_scale_backward", embedding_scale(s), {dx}, {scaled});
  return tensor_gather(b, s, scaled, gathered);
}

/// Appends the gradient of the word matrix. `dx`: gradient of the scaled rows, this rank's rows.
inline void word_gradient(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& dx, GradientSink& sink) {
  const Value all = found_gradient(b, s, dx, "", "embedding_gradient");
  sink.open("word.weight", "word.weight", s.numerics.parameter_gradient);
  b.add("embedding_backward", EmbeddingBackward{s.tokens, s.hidden, s.vocab_rows}, {tokens, all},
        {sink.part("word.weight")});
  sink.close("embedding");
}

inline PositionDropout position(const Shapes& s, double dropout, bool learned) {
  return {s.batch, s.seq, s.hidden, dropout, learned, s.sequence_parallel, s.rows, s.documents};
}
inline PositionDropoutBackward position_backward(const Shapes& s, double dropout, bool learned) {
  return {s.batch, s.seq, s.hidden, s.max_positions, dropout, learned, s.sequence_parallel, s.rows, s.documents};
}

/// The position table that two stacks share, or its gradient; empty in other models.
inline RegionValues position_slot(TemplateBuilder& b, const Shapes& s, const RegionLayout& layout) {
  return layout.elements() > 0 ? region_slot(b, "positions", MemoryKind::weights, layout, s.dtypes.weights) : RegionValues();
}
inline RegionValues position_gradient_slot(TemplateBuilder& b, const Shapes& s, const RegionLayout& layout) {
  return gradient_slot(b, "position_gradients", layout, s.written_gradients());
}

/// Appends the gradient `dx` of the word embeddings from `dy`, and adds to the gradient of the shared table.
inline void shared_position_backward(TemplateBuilder& b, const Shapes& s, const Value& dy, const Value& dx,
                                     const RegionValues& gradients) {
  const Value total = gradients("position.weight"), dtable = b.scratch(s.numerics.parameter_gradient, total.elements);
  b.add("position_backward", position_backward(s, s.hidden_dropout, true), {dy}, {dx, dtable});
  b.add("accumulate_position", Accumulate{total.elements, dtable.dtype, total.dtype}, {dtable, total}, {total});
}

}  // namespace tandem::lowering
