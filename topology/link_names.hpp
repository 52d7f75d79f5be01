#pragma once
// How links are named by people: "node 0: NIC 2 to leaf" is one direction, "node 0: NIC 2 <-> leaf" both, '*' any number.

#include <cstdint>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tandem {

/// Indices of the links that `name` means, ascending; empty when there are none.
std::vector<std::int32_t> links_named(const Topology& topology, const std::string& name);

/// Every kind of name that the links have, numbers as the range they take: "node 0..3: device 0..7 to switch".
std::vector<std::string> kinds_of_links(const Topology& topology);

}  // namespace tandem
