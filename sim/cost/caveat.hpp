#pragma once
// What predictions for a device should be read with.

#include <string>

#include "topology/topology.hpp"

namespace tandem::sim {

/// "B200, of its calibration: ...", if the device's calibration has a caveat; else empty. Throws ConfigError like load_calibration.
std::string caveat_note(const Device& device);

}  // namespace tandem::sim
