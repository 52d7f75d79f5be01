#pragma once
// Simulated time is counted in 64 bits of picoseconds, 107 days: a step that may come near is refused before it is played.

#include <cstdint>

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem::sim {

struct Play;
struct Scene;

/// The longest time that is simulated, about half of what can be counted: twice it is no overflow yet.
inline constexpr std::int64_t kLongestSeconds = 4'600'000, kLongestPicoseconds = kLongestSeconds * 1'000'000'000'000;

/// Thrown by all of these.
class Uncountable : public InfeasibleError {
 public:
  using InfeasibleError::InfeasibleError;
};

/// The nearest picosecond. Throws beyond the longest time.
Duration countable(double seconds);

/// The time of what has `share` of its speed left, likewise.
Duration slowed(Duration full, double share);

/// That a message alone takes more than the longest time: the links are blamed.
[[noreturn]] void refuse_message();

/// Throws where all tasks of the slowest roles of all stages, one after the other, take more than the longest time:
/// no schedule takes longer. Of `play` roles, catalogue and quotient are there.
void require_countable(const Scene& scene, const Play& play);

/// That a step which takes `undisturbed` without the plan's perturbation cannot be counted with it.
[[noreturn]] void refuse_perturbation(Duration undisturbed);

}  // namespace tandem::sim
