#pragma once
// Refuses steps that cannot be simulated within the time limit, before they are simulated.

#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Adds up all tasks of the slowest role of every stage, one after the other. Throws TimeLimitExceeded if the sum exceeds the time
/// limit: no schedule takes longer than that. `simulated` needs its roles, communications and quotient.
void require_within_time_limit(const Setup& setup, const SimulatedStep& simulated);

}  // namespace tandem::sim
