#pragma once
// Where NCCL chooses an algorithm that costs a step time.

#include <string>

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Names the collective that loses most by NCCL's own choice of an algorithm, what it takes and what another algorithm would take. Empty
/// where the step's collectives lose less than a hundredth of `step` by it.
std::string nccl_note(const Setup& setup, const SimulatedStep& simulated, Duration step);

}  // namespace tandem::sim
