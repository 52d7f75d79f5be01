#pragma once
// Collectives of whole chips of a torus: rings over all links between them.

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// The chips of a group that has all their cores: a row, a column, some rows or the whole torus.
struct ChipRings {
  std::int64_t chips = 0;
  std::int64_t ways = 0;            ///< directed links that the rings use from each chip; one ring in each direction is two
  std::vector<std::int32_t> links;  ///< ids of all these links
  Duration hop;                     ///< latency of the slowest link
};

/// Finds the rings of a group's collectives around its chips. One core acts for its chip, because its cores share memory.
/// The rings are cycles through all chips that share no link, each in both directions. If all chips have the same even number of
/// ways and a cycle is found, cycles use every link: a product of two or three cycles decomposes into as many Hamiltonian ones
/// (Kotzig 1973; Foregger 1978). The Neuron runtime's KangaRing is two such cycles over the sixteen chips of a trn1. Otherwise a
/// search takes one cycle after the other: half a 4x4 torus has three ways a chip and one cycle. Every ring has the rate of its
/// slowest link, so a three-dimensional torus with slower links along z has it everywhere. Returns nothing if the node is no torus,
/// members are on several nodes, a chip is split, or no cycle is found. Such groups have rings from core to core.
std::optional<ChipRings> chip_rings(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem::sim
