#pragma once
// Names of links in plans: "node 0: NIC 2 to leaf" is one direction, "node 0: NIC 2 <-> leaf" both; '*' is any number.

#include <cstdint>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tandem {

/// Ids of the links that match `name`, ascending; empty if there are none.
std::vector<std::int32_t> links_named(const Topology& topology, const std::string& name);

/// Every kind of link name, with ranges for numbers: "node 0..3: device 0..7 to switch".
std::vector<std::string> kinds_of_links(const Topology& topology);

}  // namespace tandem
