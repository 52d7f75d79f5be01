#pragma once
// A note on a pipeline whose longest stage limits it.

#include <string>

#include "models/plan/plan.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// "stage 7 computes 45 % longer than the median stage: parallel.pipeline_split [12, ...] would ...", if one does and a better split
/// is known. Empty otherwise, and if the plan disturbs devices.
std::string stage_note(const Plan& plan, const Setup& setup, const SimulatedStep& simulated);

}  // namespace tandem::sim
