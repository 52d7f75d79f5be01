#pragma once
// Collectives of whole chips of a torus: rings over all links between them.

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// Chips whose cores are all members of a group, and which their links join evenly: a row, a column or the whole torus.
struct ChipRings {
  std::int64_t chips = 0;
  std::int64_t ways = 0;            ///< directed links that leave each chip for another of the group
  std::vector<std::int32_t> links;  ///< all of them, by id
  Duration hop;                     ///< latency of the slowest
};

/// How a group's collectives go round its chips: a core of a pair speaks for the chip, for both share its memory, and edge-disjoint
/// cycles in both directions use every link (the Neuron runtime's KangaRing: two such cycles over the sixteen chips of a trn1).
/// Nothing where the node is no torus, members are on several nodes, a chip is split or chips are joined unevenly. Such groups have
/// rings from core to core.
std::optional<ChipRings> chip_rings(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem::sim
