#pragma once
// Which bytes of a template's slots are tensors of their own, and when its tasks touch them.

#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Bytes [low, high) of a slot or an allocation. The first and the last task to touch them are `first` and `last`, in issue order.
struct TensorSpan {
  std::int64_t low = 0, high = 0, first = 0, last = 0;
  std::int64_t bytes() const { return high - low; }
};
using TensorSpans = std::vector<TensorSpan>;

/// Adds a touched byte range. Overlapping ranges merge into one tensor, as with a view or a share.
void join(TensorSpans& tensors, TensorSpan more);

/// The tensors that a template's tasks touch, by slot. Slot 0 (scratch) has none.
std::vector<TensorSpans> slot_tensors(const Template& t);

}  // namespace tandem
