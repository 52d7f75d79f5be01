#pragma once
// Collectives of whole chips of a torus: rings over all links between them.

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// The chips of a group that has all their cores, evenly joined by links: a row, a column or the whole torus.
struct ChipRings {
  std::int64_t chips = 0;
  std::int64_t ways = 0;            ///< directed links that leave each chip for another of the group
  std::vector<std::int32_t> links;  ///< ids of all these links
  Duration hop;                     ///< latency of the slowest link
};

/// Finds the rings of a group's collectives around its chips. One core acts for its chip, because its cores share memory.
/// Edge-disjoint cycles in both directions use every link (the Neuron runtime's KangaRing: two such cycles over the sixteen chips
/// of a trn1). Returns nothing if the node is no torus, members are on several nodes, a chip is split, or chips are joined
/// unevenly. Such groups have rings from core to core.
std::optional<ChipRings> chip_rings(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem::sim
