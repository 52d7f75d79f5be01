// Runs a forward and a backward pass as a pair. With overlap_experts pieces of their layers alternate,
// so that one pass computes while rows of the other travel between experts' ranks.

#include <algorithm>
#include <utility>

#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {

void StageLowering::both(const Action& forward, const Action& backward) {
  begin_forward(forward);
  begin_backward(backward);
  const std::int64_t there = part(forward).layers, back = part(backward).layers;
  for (std::int64_t i = 0; i < std::max(there, back); ++i) {
    std::optional<BlockPieces> f, b;
    if (i < back) b = pieces(backward, back - 1 - i);
    if (i < there) f = pieces(forward, i);
    bool open = b.has_value();
    const auto close = [&] {
      if (!std::exchange(open, false)) return;
      end_block_backward(backward, back - 1 - i);
      if (backward.whole) block_weights_backward(backward, back - 1 - i);
    };
    while ((b && !b->over()) || (f && !f->over())) {
      if (b) add_next(*b);
      if (b && b->over() && backward.whole) close();  // meanwhile the forward pass' last rows travel
      if (f) add_next(*f);
    }
    close();
    if (f) end_block_forward(forward, i);
  }
  end_backward(backward);
  end_forward(forward);
}

void StageLowering::in_turn(const Action& forward, const Action& backward) {
  if (const Point there = flight(backward).gradient_there; there.instance() >= 0) b_.after(there);
  this->forward(forward);
  this->backward(backward);
  flight(forward).leaves_after = flight(backward).leaves_after = w_.last();
}

StageLowering::BlockPieces StageLowering::pieces(const Action& a, std::int64_t l) {
  const BlockTemplates& t = block(part(a), l);
  const bool forward = a.phase == Phase::forward;
  BlockPieces out;
  const TemplateId whole = forward ? begin_block_forward(a, l) : begin_block_backward(a, l);
  out.templates = &(forward ? t.forward_pieces : a.micro_batch == 0 ? t.backward_pieces.front() : t.backward_pieces.back());
  out.key = layer_key(a, part(a).first_layer + l);
  out.slots = slots_;
  if (out.templates->size() == 1) return out;
  out.held = w_.buffer("held", c_.library[whole].slots[0].bytes);
  out.slots.push_back({out.held});
  return out;
}

void StageLowering::add_next(BlockPieces& pieces) {
  if (pieces.over()) return;
  add((*pieces.templates)[pieces.next++], pieces.key, pieces.slots);
  if (pieces.over() && pieces.held != kNoBuffer) drop(pieces.held);
}

}  // namespace tandem::lowering
