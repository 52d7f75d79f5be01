#pragma once
// How long a stage's passes take, part by part of the model.

#include "models/planfile/stage_split.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Picoseconds that each layer, the embedding and what follows the last layer take of all micro-batches, as one in the middle of the
/// step does: from their first computation or collective to their last, without waiting for other stages. Of a stage's roles, the one
/// that computes longest counts.
LayerCosts pass_times(const Plan& plan, const Setup& setup, const SimulatedStep& simulated);

}  // namespace tandem::sim
