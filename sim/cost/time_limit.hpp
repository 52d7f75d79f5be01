#pragma once
// The longest time that is simulated. Times are 64-bit integers of picoseconds.

#include <cstdint>

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem::sim {

/// About half of what 64 bits of picoseconds hold, so that twice this time does not overflow.
inline constexpr std::int64_t kLongestSeconds = 4'600'000, kLongestPicoseconds = kLongestSeconds * 1'000'000'000'000;

/// Thrown by all functions of this file.
class TimeLimitExceeded : public InfeasibleError {
 public:
  using InfeasibleError::InfeasibleError;
};

/// Converts to picoseconds. Throws beyond the limit.
Duration within_time_limit(double seconds);

/// The time of a computation on a device that has `share` of its full speed. Throws beyond the limit.
Duration slowed(Duration full, double share);

/// A step takes too long; the message names the batch.
[[noreturn]] void refuse_step();

/// One communication alone takes too long; the message names the cluster's links.
[[noreturn]] void refuse_message();

/// A step that takes `undisturbed` without the plan's perturbation takes too long with it.
[[noreturn]] void refuse_perturbation(Duration undisturbed);

}  // namespace tandem::sim
