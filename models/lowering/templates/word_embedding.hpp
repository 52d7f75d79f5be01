#pragma once
// Word embedding: looks words up in a matrix whose rows are cut over tensor ranks, and its gradient.

#include "models/lowering/templates/gradient_sink.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

/// Appends `to` = rows of `table` (this rank's vocabulary shard) for all tokens, summed over the tensor ranks.
inline void look_up_words(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& table, const Value& to) {
  const Value all = s.sequence_parallel ? b.scratch(s.dtypes.compute, s.tokens * s.hidden) : to;
  const auto found = b.add("embedding", Embedding{s.tokens, s.hidden, s.vocab_rows}, {tokens, table}, {all});
  tensor_sum(b, s, all, "embedding", found, to);
}

/// Appends the gradient of the word matrix. `dx`: gradient of the looked-up rows, this rank's rows.
inline void word_gradient(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& dx, GradientSink& sink) {
  const Value all = tensor_gather(b, s, dx, "embedding_gradient");
  sink.open("word.weight", "word.weight", s.numerics.parameter_gradient);
  b.add("embedding_backward", EmbeddingBackward{s.tokens, s.hidden, s.vocab_rows}, {tokens, all},
        {sink.part("word.weight")});
  sink.close("embedding");
}

}  // namespace tandem::lowering
