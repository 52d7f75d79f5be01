#pragma once
// Learned positions added to looked-up words with dropout behind them, and the gradient of that. Where an encoder and its decoder
// share the table, each use adds its part to one gradient, which began at zero.

#include "models/lowering/templates/block_frame.hpp"

namespace tandem::lowering {

inline PositionDropout position(const Shapes& s, double dropout, bool learned) {
  return {s.batch, s.seq, s.hidden, dropout, learned, s.sequence_parallel, s.rows};
}
inline PositionDropoutBackward position_backward(const Shapes& s, double dropout, bool learned) {
  return {s.batch, s.seq, s.hidden, s.max_positions, dropout, learned, s.sequence_parallel, s.rows};
}

/// The table that two stacks share, or its gradient; nothing elsewhere.
inline RegionValues position_slot(TemplateBuilder& b, const Shapes& s, const RegionLayout& layout) {
  return layout.elements() > 0 ? region_slot(b, "positions", MemoryKind::weights, layout, s.dtypes.weights) : RegionValues();
}
inline RegionValues position_gradient_slot(TemplateBuilder& b, const Shapes& s, const RegionLayout& layout) {
  return gradient_slot(b, "position_gradients", layout, s.written_gradients());
}

/// Appends dx of the words from `dy`, and adds to the gradient of the table that two stacks share.
inline void shared_position_backward(TemplateBuilder& b, const Shapes& s, const Value& dy, const Value& dx,
                                     const RegionValues& gradients) {
  const Value total = gradients("position.weight"), dtable = b.scratch(s.numerics.parameter_gradient, total.elements);
  b.add("position_backward", position_backward(s, s.hidden_dropout, true), {dy}, {dx, dtable});
  b.add("accumulate_position", Accumulate{total.elements, dtable.dtype, total.dtype}, {dtable, total}, {total});
}

}  // namespace tandem::lowering
