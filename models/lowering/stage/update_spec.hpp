#pragma once
// Sizes of a stage's update, and the group over which gradient norms are summed.

#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// The update of a stage whose flat and sharded buffers have `flat` and `shard` elements,
/// with nothing offloaded. Does not set the number of the model's parameter tensors.
UpdateSpec update_spec(const Plan& plan, const Shapes& s, const Sharding& z, std::int64_t flat, std::int64_t shard);

}  // namespace tandem::lowering
