#pragma once
// Lowers one pipeline stage: schedule -> instances, with transfers, gradient reductions and the update around them.

#include "models/lowering/stage/stage_context.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::lowering {

/// Lowers one stage. `events`: the passes and transfers that the stage issues, in order.
Program lower_stage(const StageContext& context, StageId stage, const std::vector<ScheduleEvent>& events);

}  // namespace tandem::lowering
