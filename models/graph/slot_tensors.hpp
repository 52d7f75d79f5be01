#pragma once
// Which bytes of a template's slots are tensors of their own, and when its tasks touch them.

#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Bytes [low, high) of a slot or an allocation, touched at times (tasks, in issue order) `first` to `last` and maybe between.
struct TensorSpan {
  std::int64_t low = 0, high = 0, first = 0, last = 0;
  std::int64_t bytes() const { return high - low; }
};
using TensorSpans = std::vector<TensorSpan>;

/// Adds bytes that are touched; what overlaps is one tensor (a share of it, a view).
void join(TensorSpans& tensors, TensorSpan more);

/// The tensors that a template's tasks touch in its slots, by slot; of slot 0, scratch, none.
std::vector<TensorSpans> slot_tensors(const Template& t);

}  // namespace tandem
