#pragma once
// Lowers one pipeline stage: schedule -> instances, with transfers, gradient reductions and the update around them.

#include "models/lowering/shapes/parameters.hpp"
#include "models/lowering/stage/templates.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::lowering {

struct StageContext {
  const Plan& plan;
  const Shapes& shapes;
  const Templates& templates;
  TemplateLibrary& library;
  bool forward_only = false;  ///< an evaluation: what the forward passes keep is dropped behind every block
  bool exchanges = false;     ///< a pass waits for all that was sent and received in front of it (has_exchanges)
  bool every_pass = false;    ///< is written by itself, and none copied from one that was the same
  std::int64_t group = 1;     ///< micro-batches that the schedule takes together
  const Program* before = nullptr;  ///< of the stage before, which is much alike; none for the first
};

/// What the chunks of stage `stage` hold, by the plan's layer split, ascending chunk.
std::vector<ChunkPart> stage_chunks(const Plan& plan, StageId stage);

/// `events`: what the stage issues.
Program lower_stage(const StageContext& context, StageId stage, const std::vector<ScheduleEvent>& events);

}  // namespace tandem::lowering
