#include "models/schedule/dualpipe.hpp"

#include "models/schedule/folded_order.hpp"

namespace tandem {
namespace {

using Half = FoldedOrder::Half;

/// Alternates backward passes of both chunks, `times` each. The second half of them defers weights.
void drain(FoldedOrder& w, std::int64_t times) {
  for (std::int64_t i = 0; i < 2 * times; ++i)
    w.backward(i % 2 == 0 ? 1 : 0, i < times ? Half::both : Half::inputs);
}

}  // namespace

std::vector<Action> dualpipe_v(const ScheduleShape& shape, StageId stage) {
  const std::int64_t to_here = stage.value() + 1, behind = shape.stages - to_here;
  FoldedOrder w;
  for (std::int64_t i = 0; i < 2 * behind; ++i) w.forward(0);
  for (std::int64_t i = 0; i < to_here; ++i) w.forward(0), w.forward(1);
  for (std::int64_t i = 0; i < behind; ++i) w.backward(1, Half::inputs), w.weight(), w.forward(1);
  const std::int64_t turns = shape.micro_batches - 2 * shape.stages + to_here;
  for (std::int64_t i = 0; i < turns + behind; ++i) {
    if (i < turns) w.forward(0);
    w.backward(1, Half::both);
    w.forward(1);
    w.backward(0, Half::both);
  }
  drain(w, to_here);
  for (std::int64_t i = 0; i < behind; ++i) w.weight(), w.backward(0, Half::inputs);
  for (std::int64_t i = 0; i < to_here; ++i) w.weight();
  return w.take();
}

}  // namespace tandem
