#pragma once
// Pipeline schedules as data: the order in which one stage does its forward and backward passes.

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "models/task_graph.hpp"

namespace tandem {

/// One pass of one micro-batch through one chunk of one stage.
struct Action {
  Phase phase = Phase::forward;    ///< forward or backward
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;
  bool operator==(const Action&) const = default;
};

struct ScheduleShape {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
};

/// Actions of `stage` in order. 1F1B (PipeDream-flush, arXiv 2104.04473 section 2.2): min(m, p-s-1) forwards, then one
/// forward and one backward in turn, then the remaining backwards. GPipe (arXiv 1811.06965):
/// all forwards, then all backwards, both ascending. Throws InfeasibleError for schedules not yet lowered.
std::vector<Action> make_schedule(ScheduleKind kind, const ScheduleShape& shape, StageId stage);

}  // namespace tandem
