#pragma once
// DualPipeV: the order of a stage (make_schedule in models/schedule/schedule.hpp).

#include "models/schedule/schedule_shape.hpp"

namespace tandem {

/// Whole order of `stage`; `shape` has two chunks a stage and at least 2 x stages micro-batches.
std::vector<Action> dualpipe_v(const ScheduleShape& shape, StageId stage);

}  // namespace tandem
