#pragma once
// What lowering a stage needs to know, the same for all its passes.

#include "models/lowering/shapes/shapes.hpp"
#include "models/lowering/stage/templates.hpp"

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

}  // namespace tandem::lowering
