#pragma once
// The facts of a group's node that NCCL's search reads.

#include <cstdint>
#include <vector>

#include "sim/nccl/nccl_search.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Describes the first member's node at built rates: NCCL searches before anything is slow. `rings`: rings of a cube mesh, which
/// cross `ring_links`; only for groups on one node; 0: there are none.
NcclNode nccl_node(const Topology& topology, const std::vector<Rank>& members, std::int64_t rings,
                   const std::vector<std::int32_t>& ring_links);

}  // namespace tandem::sim
