#include "sim/result/network_note.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "models/base/quantity.hpp"

namespace tandem::sim {
namespace {

/// Without the traces of arithmetic: in whole MB/s.
std::string rate_text(Bandwidth rate) {
  constexpr double kMega = 1e6;
  return text_of(Bandwidth::bytes_per_second(std::round(rate.bytes_per_second() / kMega) * kMega));
}

}  // namespace

std::string network_note(const Topology& topology) {
  if (topology.devices() <= topology.devices_per_node()) return "";
  const auto other_node = DeviceId(static_cast<std::int32_t>(topology.devices_per_node()));
  const auto route = topology.route(DeviceId(0), other_node);
  const auto leads_to_nic = [&](std::int32_t link) { return topology.link_name(link).find(" to NIC ") != std::string::npos; };
  const auto attach = std::ranges::find_if(route, leads_to_nic);
  if (attach == route.end() || std::next(attach) == route.end()) return "";
  const Bandwidth limit = topology.built(*attach), nic = topology.built(*std::next(attach));
  if (limit.bytes_per_second() >= nic.bytes_per_second()) return "";
  return "the link between device and NIC (" + rate_text(limit) + ") limits the network: the NIC has " + rate_text(nic);
}

}  // namespace tandem::sim
