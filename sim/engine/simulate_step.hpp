#pragma once
// The engine's front door: simulates one step.

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Throws ContractError naming the tasks that wait for each other when the graph cannot finish.
SimulatedStep simulate_step(const Setup& setup, const Options& options = {});

/// The same step under another jitter, in place of `step`, which was simulated under one. Equal to a fresh simulation, but for the
/// count of events: links, roles and programs do not depend on the seed.
void simulate_again(const Setup& setup, const Jitter& jitter, SimulatedStep& step);

/// What `simulate_again` needs of a step: all but its times. Memory to walk another seed at the same time.
SimulatedStep for_another_seed(const SimulatedStep& step);

}  // namespace tandem::sim
