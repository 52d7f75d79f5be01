#pragma once
// What a stage's ranks update, and over whom the norm of the gradients is summed.

#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// Of a stage whose flat and sharded buffers have so many elements, nothing of them on the host; without the number of the model's
/// parameter tensors.
UpdateSpec update_spec(const Plan& plan, const Shapes& s, const Sharding& z, std::int64_t flat, std::int64_t shard);

}  // namespace tandem::lowering
