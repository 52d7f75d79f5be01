#include "sim/cost/caveat.hpp"

#include "sim/cost/calibration.hpp"
#include "sim/cost/cost_model.hpp"

namespace tandem::sim {

std::string caveat_note(const Device& device) {
  const std::string caveat = device.calibration.empty() ? std::string() : load_calibration(device.calibration).caveat;
  return caveat.empty() ? "" : device.name + ", " + kCaveat + caveat;
}

}  // namespace tandem::sim
