#pragma once
// A note on a pipeline whose longest stage limits it.

#include <string>

#include "models/plan/plan.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// "the passes of stage 7 take 45 % longer than the median stage's: with parallel.pipeline_split [12, ...] ...", if they do and the
/// plan's stack can say a better split. Empty otherwise, if the plan disturbs devices, and for an encoder with a decoder.
std::string stage_note(const Plan& plan, const Setup& setup, const SimulatedStep& simulated);

}  // namespace tandem::sim
