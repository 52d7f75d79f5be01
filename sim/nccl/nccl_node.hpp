#pragma once
// What NCCL's search sees of a group's node in a topology.

#include <cstdint>
#include <vector>

#include "sim/nccl/nccl_search.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Of the first member's node, as built: NCCL looks at it before anything is slow. `rings` of a cube mesh, and the links they cross,
/// hold for groups that stay inside one; 0: there are none.
NcclNode nccl_node(const Topology& topology, const std::vector<Rank>& members, std::int64_t rings,
                   const std::vector<std::int32_t>& ring_links);

}  // namespace tandem::sim
