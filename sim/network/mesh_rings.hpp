#pragma once
// Collectives inside a cube mesh: the rings that NCCL finds over its links.

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// Rings over all members of a group. Every ring has one cable of each link that it crosses to itself.
struct MeshRings {
  std::int64_t rings = 0;           ///< number of directed rings
  std::vector<std::int32_t> links;  ///< ids, once for every ring that crosses the link
  Duration hop;                     ///< latency of the slowest way between neighbours
};

/// Finds as many rings as a search like NCCL's (src/graph/search.cc). Every ring runs in both directions. The search tries the last
/// found ring again first, then members with most free cables between them, within a fixed number of steps. A link has as many
/// cables as it was built of: the library does not know of a perturbation. Neighbours are joined directly; if no such ring exists,
/// one other device of the group may forward (PATH_NVB). Returns nothing if the node is no cube mesh, members share devices or are
/// on several nodes, or no ring exists.
std::optional<MeshRings> mesh_rings(const Topology& topology, const std::vector<Rank>& members);

/// The rings of every node of a group over several cube meshes, if each has as many. Returns nothing if a node has one member.
std::optional<MeshRings> rings_of_nodes(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem::sim
