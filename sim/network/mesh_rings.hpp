#pragma once
// Collectives inside a cube mesh: the rings that a library finds over its links.

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// Rings over all members of a group, each of which has a cable of every link that it crosses to itself.
struct MeshRings {
  std::int64_t rings = 0;           ///< directed
  std::vector<std::int32_t> links;  ///< by id, once for every ring that crosses it
  Duration hop;                     ///< latency of the longest way between neighbours
};

/// As many rings as a search like NCCL's finds (src/graph/search.cc): every ring runs in both directions, the one found is tried
/// again first, then members with most free cables between them, within a fixed number of steps. A link is as many cables as
/// it was built of; the library does not know of one that a perturbation slows. Neighbours are joined
/// directly; where no such ring is, one other device of the group may forward (PATH_NVB). Nothing where the node is no cube mesh,
/// members share devices or are on several nodes, or no ring is there.
std::optional<MeshRings> mesh_rings(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem::sim
