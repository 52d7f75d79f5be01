#pragma once
// Notes if NCCL chooses an algorithm that makes a step slower.

#include <string>

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Names the collective that loses most by NCCL's choice of algorithm, its time, and the time of a faster algorithm. Empty if the
/// step's collectives lose less than a hundredth of `step`.
std::string nccl_note(const Setup& setup, const SimulatedStep& simulated, Duration step);

}  // namespace tandem::sim
