#pragma once
// Simulated time is counted in 64 bits of picoseconds, 107 days: a step that may come near is refused before it is played.

#include "sim/play.hpp"

namespace tandem::sim {

/// The nearest picosecond. Throws InfeasibleError beyond half of what can be counted.
Duration countable(double seconds);

/// Throws InfeasibleError where all tasks of the slowest roles of all stages, one after the other, take more than half of what can be
/// counted: no schedule takes longer. Of `play` roles, catalogue and quotient are there.
void require_countable(const Scene& scene, const Play& play);

}  // namespace tandem::sim
