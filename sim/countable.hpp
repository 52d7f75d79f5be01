#pragma once
// Simulated time is counted in 64 bits of picoseconds, 107 days: a step that may come near is refused before it is played.

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem::sim {

struct Play;
struct Scene;

/// Thrown by all of these.
class Uncountable : public InfeasibleError {
 public:
  using InfeasibleError::InfeasibleError;
};

/// The nearest picosecond. Throws beyond half of what can be counted.
Duration countable(double seconds);

/// The time of what has `share` of its speed left, likewise.
Duration slowed(Duration full, double share);

/// That a message alone takes more than half of what can be counted: the links are blamed.
[[noreturn]] void refuse_message();

/// Throws where all tasks of the slowest roles of all stages, one after the other, take more than half of what can be
/// counted: no schedule takes longer. Of `play` roles, catalogue and quotient are there.
void require_countable(const Scene& scene, const Play& play);

/// That a step which takes `undisturbed` without the plan's perturbation cannot be counted with it.
[[noreturn]] void refuse_perturbation(Duration undisturbed);

}  // namespace tandem::sim
