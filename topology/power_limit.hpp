#pragma once
// The clock of a device under a power limit, as data: topology/budget/power.json.

#include <optional>
#include <string>

#include "topology/device.hpp"

namespace tandem {

/// Power of a device by its clock c, relative to the clock of large matrix products at rated power: idle + (rated - idle) x d(c).
/// While the voltage follows the clock, d = c^exponent. Below `floor` the voltage stays, so d falls in proportion to c.
struct PowerCurve {
  double rated_w = 0, idle_w = 0;
  double lowest_w = 0;   ///< the lowest limit that can be set
  double exponent = 1, floor = 0;

  /// The clock that fits into `watts`: 1 at rated power, ascending. `watts` must be above idle power.
  double clock(double watts) const;
};

/// The curve of a device preset; nothing if its watts are not known. Throws ConfigError on a broken file.
std::optional<PowerCurve> power_curve(const std::string& preset);

/// Sets a device's limit and the clock that it leaves. Throws InfeasibleError if the device's watts are not known, or if the limit
/// cannot be set so.
void set_power_limit(double watts, Device& device);

/// What a limit does to the device; empty if it lowers no clock.
std::string power_note(const Device& device);

}  // namespace tandem
