#pragma once
// V-Half and V-Min: orders with half and a third of 1F1B's activation memory (make_schedule in models/schedule/schedule.hpp).

#include "models/plan/schedule_kind.hpp"
#include "models/schedule/schedule_shape.hpp"

namespace tandem {

/// Orders of all stages; `shape` has two chunks a stage.
Orders controllable_memory(ScheduleKind kind, const ScheduleShape& shape);

}  // namespace tandem
