#pragma once
// Inputs of a stage's lowering that all its passes share.

#include "models/lowering/shapes/shapes.hpp"
#include "models/lowering/stage/templates.hpp"

namespace tandem::lowering {

struct StageContext {
  const Plan& plan;
  const Shapes& shapes;
  const Templates& templates;
  TemplateLibrary& library;
  bool forward_only = false;  ///< evaluation: a block's stored tensors are freed after the block
  bool exchanges = false;     ///< a pass waits for all earlier sends and receives (has_exchanges)
  bool every_pass = false;    ///< lowers every pass; copies no repeated ones
  std::int64_t group = 1;     ///< micro-batches that the schedule treats as a group
  const Program* before = nullptr;  ///< program of the previous, similar stage; null for the first
  bool weights_only = false;  ///< keeps no gradients and no optimizer states; only with forward_only
};

}  // namespace tandem::lowering
