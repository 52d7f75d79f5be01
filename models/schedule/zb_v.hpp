#pragma once
// ZB-V: the order of a stage (make_schedule in models/schedule/schedule.hpp).

#include "models/schedule/schedule_shape.hpp"

namespace tandem {

/// Whole order of `stage`; `shape` has two chunks a stage.
std::vector<Action> zb_v(const ScheduleShape& shape, StageId stage);

}  // namespace tandem
