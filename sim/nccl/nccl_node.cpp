#include "sim/nccl/nccl_node.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace tandem::sim {

NcclNode nccl_node(const Topology& t, const std::vector<Rank>& members, std::int64_t rings,
                   const std::vector<std::int32_t>& ring_links) {
  const DeviceId first = t.device_of(members.front());
  std::vector<DeviceId> here;
  std::optional<DeviceId> outside;
  for (const Rank r : members) {
    const DeviceId d = t.device_of(r);
    if (t.node_of(d) == t.node_of(first)) here.push_back(d);
    else if (!outside) outside = d;
  }
  const auto built = [&](std::int32_t link) { return t.built(link).bytes_per_second(); };
  NcclNode node;
  node.ranks = static_cast<std::int64_t>(here.size());
  node.pcie = t.scale_up() == ScaleUp::pcie && node.ranks > 1;
  if (rings > 0 && !outside) {
    node.rings = rings;
    double cable = built(ring_links.front());
    for (const std::int32_t link : ring_links) cable = std::min(cable, built(link));
    node.links = cable * static_cast<double>(node.rings);
    return node;
  }
  const bool own_links = t.scale_up() == ScaleUp::full_mesh;  // to every other device of the node
  for (const DeviceId d : here)
    if (d != first && (node.links == 0 || own_links)) node.links += built(t.route(first, d).front());
  if (!outside) return node;
  std::set<std::int32_t> nics;
  for (const DeviceId d : here) {
    const std::vector<std::int32_t> way = t.route(d, *outside);  // links to its NIC, out of it, and beyond
    const double rate = std::min(built(way[0]), built(way[1]));
    node.nic = nics.empty() ? rate : std::min(node.nic, rate);
    nics.insert(way[1]);
  }
  node.nics = static_cast<std::int64_t>(nics.size());
  return node;
}

}  // namespace tandem::sim
