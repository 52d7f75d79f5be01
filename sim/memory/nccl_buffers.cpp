#include "sim/memory/nccl_buffers.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "sim/nccl/nccl_node.hpp"
#include "sim/nccl/nccl_search.hpp"
#include "sim/network/mesh_rings.hpp"

namespace tandem::sim {
namespace {

// Bytes of a connection by protocol (NVIDIA/nccl, src/init.cc and src/include/device.h, alike from 2.10 to 2.27): lines a thread x
// threads x steps x bytes a line; elements a thread x threads x steps x bytes an element; and 4 MiB.
constexpr std::int64_t kLl = 8 * 512 * 8 * 16, kLl128 = 120 * 640 * 8 * 8, kSimple = 4 << 20;
/// Bytes of a connection inside a node, both ends together (src/transport/p2p.cc).
constexpr std::int64_t kInside = kLl + kLl128 + kSimple;
/// Bytes of a connection between nodes: at its receiver, which the NIC writes to directly, and at its sender, which has LL in host
/// memory (src/transport/net.cc).
constexpr std::int64_t kReceiver = kInside, kSender = kLl128 + kSimple;

/// Channels that NCCL opens: it uses every graph that it finds twice (src/graph/connect.cc, ncclTopoPostset), up to MAXCHANNELS.
std::int64_t channels(std::int64_t found, NcclArchitecture a) {
  return std::min<std::int64_t>(2 * found, a < NcclArchitecture::hopper ? 32 : 64);
}

/// Bytes of one ring on a node: from rank to rank inside it, and into and out of it.
double ring(const NcclGroup& g) {
  const double inside = static_cast<double>(g.nodes == 1 ? g.here : g.here - 1) * kInside;
  return inside + (g.nodes == 1 ? 0 : kSender + kReceiver);
}

/// Bytes of one tree on a node: a chain through each node and a tree of nodes, every link in both directions.
double tree(const NcclGroup& g) {
  const double links = 2 * static_cast<double>(g.nodes - 1) / static_cast<double>(g.nodes);  // a node's, counted at both ends
  return 2 * static_cast<double>(g.here - 1) * kInside + links * (kSender + kReceiver);
}

NcclGroup group_of(const Setup& setup, const std::vector<Rank>& members, NcclArchitecture architecture) {
  const Topology& t = setup.topology;
  std::vector<std::int64_t> nodes;
  nodes.reserve(members.size());
  for (const Rank r : members) nodes.push_back(t.node_of(t.device_of(r)));
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  const auto mesh = mesh_rings(t, members);
  const NcclNode node = nccl_node(t, members, mesh ? mesh->rings : 0, mesh ? mesh->links : std::vector<std::int32_t>());
  return {node.ranks, static_cast<std::int64_t>(nodes.size()), nccl_search(node, architecture).channels};
}

}  // namespace

Bytes nccl_buffers(const NcclGroup& group, NcclArchitecture architecture) {
  if (group.here * group.nodes == 1) return Bytes(0);
  const double one = ring(group) + (architecture < NcclArchitecture::hopper ? tree(group) : 0);
  return Bytes(static_cast<std::int64_t>(static_cast<double>(channels(group.channels, architecture)) * one /
                                         static_cast<double>(group.here)));
}

Bytes communicator_buffers(const Setup& setup, const Communications& communications, Rank rank,
                           const std::vector<Communicators>& of_stack) {
  const auto nccl = setup.cost.comm_fit().nccl;
  if (!nccl || setup.topology.ranks_per_device() > 1) return Bytes(0);
  std::set<std::vector<Rank>> groups, pairs;
  std::set<Group> listed;  // a group is listed once: listing members takes long for large ones
  for (const std::uint32_t t : communications.templates[setup.stage_of(rank).index()])
    for (std::uint32_t slot = communications.first_slot[t]; slot < communications.first_slot[t + 1]; ++slot) {
      const Communications::Entry& entry = communications.entries[slot];
      if (entry.message < 0) continue;
      const Port& port = communications.ports[communications.messages[static_cast<std::size_t>(entry.message)].port];
      if (port.kind == Port::Kind::collective) {
        if (listed.insert(port.group).second) groups.insert(setup.mesh.members(port.group, rank));
        continue;
      }
      const Rank other = setup.mesh.stage_neighbour(rank, entry.receiver ? -port.offset : port.offset);
      pairs.insert({std::min(rank, other), std::max(rank, other)});
    }
  const auto buffers = [&](const std::vector<Rank>& members) {
    return members.size() > 1 ? nccl_buffers(group_of(setup, members, *nccl), *nccl) : Bytes(0);
  };
  Bytes sum;
  for (const Communicators& c : of_stack) {
    const std::vector<Rank> members = setup.mesh.members(c.group, rank);
    sum += c.count * buffers(members);
    groups.erase(members);
  }
  for (const std::vector<Rank>& members : pairs) {
    if (!of_stack.empty() || !groups.contains(members)) sum += buffers(members);
  }
  for (const std::vector<Rank>& members : groups) sum += buffers(members);
  return sum;
}

}  // namespace tandem::sim
