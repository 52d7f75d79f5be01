#pragma once
// Roles: classes of ranks that behave alike, found by colour refinement of ranks, transfers and links together (the coarsest
// equitable partition; Grohe, Kersting, Mladenov and Selman, "Dimension Reduction via Colour Refinement", ESA 2014). One
// representative of each class is simulated for all of them.

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

/// `colours`: initial colour of every rank (its program, and all else that sets it apart). A transfer's initial colour is its
/// port and its work, a link's is its capacity.
Folding fold(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours);

}  // namespace tandem::sim
