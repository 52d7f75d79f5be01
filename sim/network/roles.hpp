#pragma once
// Roles: classes of ranks that no part of the simulation can tell apart, by colour refinement of ranks, transfers and links
// together (the coarsest equitable partition; Grohe, Kersting, Mladenov and Selman, "Dimension Reduction via Colour
// Refinement", ESA 2014). In such a partition one representative of each class behaves as all of them.

#include <cstdint>
#include <vector>

#include "sim/network/transfer_map.hpp"

namespace tandem::sim {

/// A partition into classes 0, 1, ... numbered by their first members.
struct Classes {
  std::vector<std::uint32_t> of;     ///< class of each member
  std::vector<std::uint32_t> first;  ///< first member of each class

  std::size_t size() const { return first.size(); }
};

struct Folding {
  Classes ranks, transfers, links;
};

/// `colours`: initial colour of every rank (its program, and whatever else sets it apart). A transfer starts with its port
/// and what it costs, a link with its rate and latency.
Folding fold(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours);

}  // namespace tandem::sim
