#include "models/graph/slot_tensors.hpp"

#include <algorithm>

namespace tandem {

void join(TensorSpans& tensors, TensorSpan more) {
  const auto apart = std::partition(tensors.begin(), tensors.end(),
                                    [&](const TensorSpan& t) { return t.high <= more.low || more.high <= t.low; });
  for (auto t = apart; t != tensors.end(); ++t) {
    more.low = std::min(more.low, t->low), more.high = std::max(more.high, t->high);
    more.first = std::min(more.first, t->first), more.last = std::max(more.last, t->last);
  }
  tensors.erase(apart, tensors.end());
  tensors.push_back(more);
}

std::vector<TensorSpans> slot_tensors(const Template& t) {
  std::vector<TensorSpans> slots(std::max<std::size_t>(1, t.slots.size()));
  for (std::size_t k = 0; k < t.tasks.size(); ++k) {
    const auto task = static_cast<std::int64_t>(k);
    const auto touch = [&](const Operand& o) {
      if (o.slot > 0 && o.elements > 0) join(slots[o.slot], {o.offset, o.offset + o.span(), task, task});
    };
    for (const Operand& o : t.tasks[k].inputs) touch(o);
    for (const Operand& o : t.tasks[k].outputs) touch(o);
  }
  return slots;
}

}  // namespace tandem
