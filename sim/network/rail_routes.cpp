#include "sim/network/rail_routes.hpp"

#include <algorithm>

namespace tandem::sim {

RailRoutes::RailRoutes(const Topology& topology, const std::vector<Rank>& members) : topology_(topology) {
  for (const Rank r : members) devices_.push_back(topology.device_of(r));
  std::sort(devices_.begin(), devices_.end());
}

std::vector<std::int32_t> RailRoutes::route(DeviceId from, DeviceId to) const {
  std::vector<std::int32_t> own = topology_.route(from, to);
  const std::int64_t in_node = topology_.devices_per_node(), first = topology_.node_of(from) * in_node;
  const DeviceId beside(static_cast<std::int32_t>(first + to.value() % in_node));
  const bool across = topology_.node_of(from) != topology_.node_of(to);
  if (!across || beside == from || !std::binary_search(devices_.begin(), devices_.end(), beside)) return own;
  const std::vector<std::int32_t> on_rail = topology_.route(beside, to);
  if (on_rail.size() >= own.size()) return own;
  std::vector<std::int32_t> way = topology_.route(from, beside);
  way.insert(way.end(), on_rail.begin(), on_rail.end());
  return way;
}

}  // namespace tandem::sim
