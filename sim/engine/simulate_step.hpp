#pragma once
// The engine's front door: simulates one step.

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Throws ContractError if the graph cannot finish; it names the tasks that wait for each other.
SimulatedStep simulate_step(const Setup& setup, const Options& options = {});

/// Simulates `step`, which was simulated under some jitter, again under another one. The result equals a fresh simulation but for
/// the count of events: links, roles and programs do not depend on the seed.
void simulate_again(const Setup& setup, const Jitter& jitter, SimulatedStep& step);

/// Copies all of a step but its times, which `simulate_again` fills in: two seeds can then be simulated at the same time.
SimulatedStep for_another_seed(const SimulatedStep& step);

}  // namespace tandem::sim
