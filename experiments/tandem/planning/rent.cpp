#include "experiments/tandem/planning/rent.hpp"

namespace tandem::planning {

RentedDevices rented_devices(const Assessment& a, const std::optional<PriceCondition>& price, std::int64_t spare_nodes) {
  RentedDevices out{a.devices(), static_cast<double>(spare_nodes * a.topology->devices_per_node()), 0};
  const bool singly = price && price->offer != nullptr && price->offer->devices == 1;
  if (!singly) out.idle = static_cast<double>((a.nodes() + spare_nodes) * a.built_per_node) - out.without_idle();
  return out;
}

}  // namespace tandem::planning
