#pragma once
// Which layers and ends of the model each chunk of each stage holds.

#include <vector>

#include "models/lowering/shapes/stage_units.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// By stage: its chunks under the plan's layer split, ascending.
std::vector<std::vector<ChunkPart>> stage_chunks(const Plan& plan);

}  // namespace tandem::lowering
