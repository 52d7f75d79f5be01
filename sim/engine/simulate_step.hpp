#pragma once
// The engine's front door: simulates one step.

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Throws ContractError naming the tasks that wait for each other when the graph cannot finish.
SimulatedStep simulate_step(const Setup& setup, const Options& options = {});

}  // namespace tandem::sim
