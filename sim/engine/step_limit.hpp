#pragma once
// Refuses steps that cannot be simulated within the time limit, before they are simulated.

#include "sim/engine/play.hpp"

namespace tandem::sim {

/// Adds up all tasks of the slowest role of every stage, one after the other. Throws TimeLimitExceeded if the sum exceeds the time
/// limit: no schedule takes longer than that. `play` needs its roles, catalogue and quotient.
void require_within_time_limit(const Scene& scene, const Play& play);

}  // namespace tandem::sim
