#include "models/lowering/blocks.hpp"
#include "models/lowering/gradient_sink.hpp"
#include "models/lowering/norm.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// What the embedding keeps: only an embedding norm needs its input and statistics.
struct EmbedSaved {
  Value looked_up, stats;
  EmbedSaved(const Shapes& s, std::uint16_t slot) {
    SlotLayout at(slot);
    looked_up = at.add(s.dtypes.compute, s.tokens * s.hidden);
    stats = at.add(s.dtypes.compute, 2 * s.tokens);
  }
};

/// Whether anything is left to do once a token has its vector.
bool has_position(const Shapes& s) { return s.learned_positions || s.hidden_dropout > 0; }

}  // namespace

Template embed_forward(const Shapes& s) {
  TemplateBuilder b("embed_forward", s.dtypes.compute);
  const EmbeddingParams p = embedding_params(s);
  const Value weights = b.whole(b.slot("weights", MemoryKind::weights), s.dtypes.weights, p.elements);
  const Value tokens = b.whole(b.slot("tokens", MemoryKind::activations), DType::int32, s.tokens);
  const Value y = b.whole(b.slot("y", MemoryKind::activations), s.dtypes.compute, s.tokens * s.hidden);
  const EmbedSaved saved(s, b.slot("saved", MemoryKind::activations));

  const auto until = [&](bool last) { return last ? y : b.scratch(s.dtypes.compute, s.tokens * s.hidden); };
  const Value looked_up = s.embedding_norm ? saved.looked_up : until(!has_position(s));
  const auto lookup = b.add("embedding", Embedding{s.tokens, s.hidden, s.vocab_rows},
                            {tokens, weights.part(p.word, s.vocab_rows * s.hidden)}, {looked_up});
  tensor_all_reduce(b, s, looked_up, "embedding", lookup);
  Value x = looked_up;
  if (s.embedding_norm) {
    x = until(!has_position(s));
    norm(b, s, "embedding_norm", looked_up,
         {weights.part(p.norm_weight, s.hidden), weights.part(p.norm_bias, s.rms ? 0 : s.hidden)}, {x, saved.stats});
  }
  if (!has_position(s)) return b.finish();
  std::vector<Value> in{x};
  if (s.learned_positions) in.push_back(weights.part(p.position, s.max_positions * s.hidden));
  b.add("position", PositionDropout{s.batch, s.seq, s.hidden, s.hidden_dropout, s.learned_positions}, in, {y});
  return b.finish();
}

Template embed_backward(const Shapes& s, bool first) {
  TemplateBuilder b("embed_backward", s.dtypes.compute);
  const EmbeddingParams p = embedding_params(s);
  const Value weights = b.whole(b.slot("weights", MemoryKind::weights), s.dtypes.weights, p.elements);
  const Value gradients = b.whole(b.slot("gradients", MemoryKind::gradients), s.dtypes.gradients, p.elements);
  const Value tokens = b.whole(b.slot("tokens", MemoryKind::activations), DType::int32, s.tokens);
  const EmbedSaved saved(s, b.slot("saved", MemoryKind::activations));
  const Value dy = b.whole(b.slot("dy", MemoryKind::activations), s.dtypes.compute, s.tokens * s.hidden);
  GradientSink sink(b, gradients, first);

  Value dx = has_position(s) ? b.scratch(s.dtypes.compute, s.tokens * s.hidden) : dy;
  std::vector<Value> out{dx};
  const std::int64_t table = s.max_positions * s.hidden;
  if (s.learned_positions) {
    sink.open(p.position, table, s.dtypes.compute);
    out.push_back(sink.part(p.position, table));
  }
  if (has_position(s))
    b.add("position_backward",
          PositionDropoutBackward{s.batch, s.seq, s.hidden, s.max_positions, s.hidden_dropout, s.learned_positions}, {dy},
          out);
  if (s.learned_positions) sink.close("position");
  if (s.embedding_norm) {
    const Value dn = dx;
    dx = b.scratch(s.dtypes.compute, s.tokens * s.hidden);
    sink.open(p.norm_weight, p.elements - p.norm_weight, s.dtypes.compute);
    norm_backward(b, s, "embedding_norm", {dn, saved.looked_up, saved.stats, weights.part(p.norm_weight, s.hidden)}, dx,
                  {sink.part(p.norm_weight, s.hidden), sink.part(p.norm_bias, s.rms ? 0 : s.hidden)});
    sink.close("embedding_norm");
  }
  const std::int64_t word = s.vocab_rows * s.hidden;
  sink.open(p.word, word, s.dtypes.compute);
  b.add("embedding_backward", EmbeddingBackward{s.tokens, s.hidden, s.vocab_rows}, {tokens, dx},
        {sink.part(p.word, word)});
  sink.close("embedding");
  return b.finish();
}

}  // namespace tandem::lowering
