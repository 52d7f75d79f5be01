#pragma once
// What the chunks of a stage hold.

#include <vector>

#include "models/base/ids.hpp"
#include "models/lowering/shapes/parameters.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// What the chunks of stage `stage` hold, by the plan's layer split, ascending chunk.
std::vector<ChunkPart> stage_chunks(const Plan& plan, StageId stage);

}  // namespace tandem::lowering
