#pragma once
// The devices whose hours a plan pays for.

#include "experiments/tandem/planning/conditions.hpp"

namespace tandem::planning {

/// Devices of a plan by what they do. A price is paid for all of them.
struct RentedDevices {
  double used = 0, spare = 0;
  double idle = 0;  ///< of rented nodes, neither used nor spare
  double paid() const { return used + spare + idle; }
  double without_idle() const { return used + spare; }
};

/// Devices that are rented for a plan and `spare_nodes`: those of whole nodes, or of whole racks where a rack is one node. An offer
/// of a single device is rented by the device.
RentedDevices rented_devices(const Assessment& assessment, const std::optional<PriceCondition>& price, std::int64_t spare_nodes);

}  // namespace tandem::planning
