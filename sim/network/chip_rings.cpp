#include "sim/network/chip_rings.hpp"

#include <algorithm>
#include <map>

namespace tandem::sim {
namespace {

constexpr std::size_t kNextChip = 3;  ///< links of a route to a core of a neighbouring chip: up, across, down

/// The first core of every chip; empty if some chip has a core that is no member.
std::vector<DeviceId> whole_chips(const Topology& topology, const std::vector<Rank>& members) {
  std::map<std::int64_t, std::int64_t> cores;
  for (const Rank r : members) ++cores[topology.device_of(r).value() / topology.cores_per_chip()];
  std::vector<DeviceId> chips;
  for (const auto& [chip, count] : cores) {
    if (count != topology.cores_per_chip()) return {};
    chips.push_back(DeviceId(static_cast<std::int32_t>(chip * topology.cores_per_chip())));
  }
  return chips;
}

}  // namespace

std::optional<ChipRings> chip_rings(const Topology& topology, const std::vector<Rank>& members) {
  if (topology.cores_per_chip() == 0 || topology.ranks_per_device() > 1) return {};
  const std::vector<DeviceId> chips = whole_chips(topology, members);
  for (const DeviceId chip : chips)
    if (topology.node_of(chip) != topology.node_of(chips.front())) return {};
  if (chips.size() < 2) return {};

  ChipRings out;
  out.chips = static_cast<std::int64_t>(chips.size());
  for (const DeviceId from : chips) {
    std::int64_t ways = 0;
    for (const DeviceId to : chips) {
      const auto route = topology.route(from, to);
      if (route.size() != kNextChip) continue;
      ++ways;
      out.links.push_back(route[1]);
      out.hop = std::max(out.hop, topology.link(route[1]).latency);
    }
    if (out.ways != 0 && ways != out.ways) return {};
    out.ways = ways;
  }
  const bool cycles = out.ways == 2 || out.ways == 4 || (out.ways == 1 && out.chips == 2);
  if (!cycles) return {};
  return out;
}

}  // namespace tandem::sim
