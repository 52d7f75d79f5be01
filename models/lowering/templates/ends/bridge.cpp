// The bridge between encoder and decoder. The encoder's output is normed once and becomes the memory
// that every decoder layer attends to. The decoder starts with its own tokens, in the same word matrix
// (arXiv 1910.10683 section 2.1). If positions are learned, it uses the same position table, too.

#include "models/lowering/templates/ends/embedding.hpp"

namespace tandem::lowering {
namespace {

Value memory_at_end(const Shapes& d, const Value& whole) {
  return whole.part(d.hidden_elements(), d.memory_rows * d.hidden);
}

Value token_slot(TemplateBuilder& b, const Shapes& d) {
  return b.whole(b.slot("decoder_tokens", MemoryKind::activations), DType::int32, d.tokens);
}

std::string table_name(const Shapes& s) { return s.relative_buckets > 0 ? "relative" : "position"; }

Value stats_slot(TemplateBuilder& b, const Shapes& s) {
  SlotLayout at(b.slot("saved", MemoryKind::activations));
  at.add(s.norm_copy_type(), s.norm_copy());  // never written
  return at.add(s.numerics.statistics, 2 * s.rows);
}

}  // namespace

Template bridge_forward(const Shapes& s, const Shapes& d) {
  const RegionLayout layout = bridge_region(s), word_layout = word_region(s), position_layout = position_region(s);
  TemplateBuilder b("bridge_forward", s.dtypes.compute, s.fusion);
  const RegionValues w = region_slot(b, "bridge", MemoryKind::weights, layout, s.dtypes.weights);
  const RegionValues word = region_slot(b, "word", MemoryKind::weights, word_layout, s.dtypes.weights);
  const RegionValues positions = position_slot(b, s, position_layout);
  const Value x = hidden_slot(b, s, "x"), tokens = token_slot(b, d);
  const Value y = b.whole(b.slot("y", MemoryKind::activations), s.dtypes.compute, d.boundary_elements());
  const Value stats = stats_slot(b, s), state = y.part(0, d.hidden_elements());
  norm(b, s, "final_norm", x, norm_params(s, "final_norm", w), {memory_at_end(d, y), stats});
  const bool learned = d.shared_positions(), position_follows = learned || d.hidden_dropout > 0;
  const Value found = position_follows ? b.scratch(s.dtypes.compute, d.hidden_elements()) : state;
  look_up_words(b, d, tokens, word("word.weight"), found);
  if (learned) b.add("position", position(d, d.hidden_dropout, true), {found, positions("position.weight")}, {state});
  else if (position_follows) b.add("dropout", position(d, d.hidden_dropout, false), {found}, {state});
  return b.finish();
}

Template bridge_backward(const Shapes& s, const Shapes& d, bool first) {
  const RegionLayout layout = bridge_region(s), word_layout = word_region(s), position_layout = position_region(s);
  TemplateBuilder b("bridge_backward", s.dtypes.compute, s.fusion);
  const RegionValues w = region_slot(b, "bridge", MemoryKind::weights, layout, s.dtypes.weights);
  GradientSink sink(b, gradient_slot(b, "bridge_gradients", layout, s.written_gradients()), first);
  GradientSink word_sink(b, gradient_slot(b, "word_gradients", word_layout, s.written_gradients()), first);
  const RegionValues position_gradients = position_gradient_slot(b, s, position_layout);
  const Value x = hidden_slot(b, s, "x"), tokens = token_slot(b, d), stats = stats_slot(b, s);
  const Value dy = hidden_slot(b, d, "dy"), dmemory = memory_slot(b, d, "dmemory"), dx = hidden_slot(b, s, "dx");
  Value dword = dy;
  if (d.shared_positions() || d.hidden_dropout > 0) dword = b.scratch(s.dtypes.compute, d.hidden_elements());
  if (d.shared_positions()) shared_position_backward(b, d, dy, dword, position_gradients);
  else if (d.hidden_dropout > 0) b.add("dropout_backward", position_backward(d, d.hidden_dropout, false), {dy}, {dword});
  word_gradient(b, d, tokens, dword, word_sink);
  sink.open("final_norm.weight", s.norm_bias ? "final_norm.bias" : "final_norm.weight", s.numerics.parameter_gradient);
  norm_backward(b, s, "final_norm", {dmemory, x, stats, w("final_norm.weight")}, dx,
                {sink.part("final_norm.weight"), s.norm_bias ? sink.part("final_norm.bias") : Value{}});
  sink.close("final_norm");
  return b.finish();
}

Template memory_pass(std::string name, const Shapes& d) {
  TemplateBuilder b(std::move(name), d.dtypes.compute);
  const Value from = memory_slot(b, d, "from"), to = memory_slot(b, d, "to");
  b.add("copy", copy_of(to), {from}, {to});
  return b.finish();
}

Template memory_gradient_start(const Shapes& d) {
  TemplateBuilder b("memory_gradient_start", d.dtypes.compute);
  const Value dmemory = memory_slot(b, d, "dmemory");
  b.add("zero", Fill{dmemory.elements, dmemory.dtype}, {}, {dmemory});
  return b.finish();
}

Template table_gradient_start(const Shapes& s) {
  const RegionLayout layout = tables_region(s);
  TemplateBuilder b(table_name(s) + "_gradient_start", s.dtypes.compute);
  const RegionValues tables = gradient_slot(b, table_name(s) + "_gradients", layout, s.written_gradients());
  b.add("zero", Fill{tables.whole().elements, s.written_gradients()}, {}, {tables.whole()});
  return b.finish();
}

Template table_gradient_add(const Shapes& s) {
  const RegionLayout layout = tables_region(s);
  const DType d = s.dtypes.gradients;
  TemplateBuilder b(table_name(s) + "_gradient_add", s.dtypes.compute);
  const Value from = gradient_slot(b, "from", layout, d).whole(), to = gradient_slot(b, "to", layout, d).whole();
  b.add("add", Accumulate{to.elements, d, d}, {from, to}, {to});
  return b.finish();
}

}  // namespace tandem::lowering
