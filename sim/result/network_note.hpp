#pragma once
// A note if something before the NICs limits the network.

#include <string>

#include "topology/topology.hpp"

namespace tandem::sim {

/// Says that the link between a device and its NIC is slower than the NIC, which then cannot be used fully. Empty if it is not.
std::string network_note(const Topology& topology);

}  // namespace tandem::sim
