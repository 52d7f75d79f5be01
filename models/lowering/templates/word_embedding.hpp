#pragma once
// Looking words up in a matrix whose rows are cut over tensor ranks, and the gradient of that.

#include "models/lowering/templates/gradient_sink.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

/// Appends `to` = rows of `table` (a vocabulary shard) for all tokens, summed over its shards.
inline void look_up_words(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& table, const Value& to) {
  const Value all = s.sequence_parallel ? b.scratch(s.dtypes.compute, s.tokens * s.hidden) : to;
  const auto found = b.add("embedding", Embedding{s.tokens, s.hidden, s.vocab_rows}, {tokens, table}, {all});
  tensor_sum(b, s, all, "embedding", found, to);
}

/// Appends the gradient of the word matrix from `dx`, the rank's rows of the gradient of what was looked up.
inline void word_gradient(TemplateBuilder& b, const Shapes& s, const Value& tokens, const Value& dx, GradientSink& sink) {
  const Value all = tensor_gather(b, s, dx, "embedding_gradient");
  sink.open("word.weight", "word.weight", s.numerics.parameter_gradient);
  b.add("embedding_backward", EmbeddingBackward{s.tokens, s.hidden, s.vocab_rows}, {tokens, all},
        {sink.part("word.weight")});
  sink.close("embedding");
}

}  // namespace tandem::lowering
