#pragma once
// What a search varies where nobody says it.

#include <vector>

#include "experiments/tandem/search/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// Tensor, pipeline and context degrees, experts' degree where there are experts, sharding, micro-batch, schedule with chunks,
/// recomputation, sequence parallelism: values that the model, the batch and the devices leave possible. `per_node`: devices of a node.
std::vector<AxisRequest> default_axes(const Plan& draft, std::int64_t per_node);

}  // namespace tandem::search
