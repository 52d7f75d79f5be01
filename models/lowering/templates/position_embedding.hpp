#pragma once
// Learned positions added to word embeddings, then dropout; and the gradient. If encoder
// and decoder share the table, each use adds to one gradient, which starts at zero.

#include "models/lowering/templates/block_frame.hpp"

namespace tandem::lowering {

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
