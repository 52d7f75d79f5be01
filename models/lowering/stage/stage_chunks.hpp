#pragma once
// What the chunks of stages hold.

#include <vector>

#include "models/lowering/shapes/stage_units.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// By stage, what its chunks hold by the plan's layer split, ascending chunk.
std::vector<std::vector<ChunkPart>> stage_chunks(const Plan& plan);

}  // namespace tandem::lowering
