#pragma once
// How many channels NCCL opens: its search over a node's links (NVIDIA/nccl, src/graph/search.cc, commit 5067397c of 2026-06-11),
// for devices behind a switch.

#include <cstdint>

#include "sim/nccl/nccl.hpp"

namespace tandem::sim {

/// What the search looks at. Bytes/s as the hardware has them.
struct NcclNode {
  std::int64_t ranks = 1;   ///< of the group in the node
  double links = 0;         ///< of a device inside its node, all of them together
  std::int64_t rings = 0;   ///< that a cube mesh holds, each over one cable of `links`; 0: a switch joins the devices
  std::int64_t nics = 0;    ///< that the group's ranks are next to; 0: the group stays in its node
  double nic = 0;
};

/// For rings, rates NCCL knows are tried from the highest that a path carries down to half of the best, and the most bandwidth
/// wins; ties go to the higher rate. Few fast channels are then split in two. Trees get as many channels, each at the highest rate
/// that fits, and inside the nodes up to twice the rate between them. In the nodes' switches (NVLS, from Hopper on) as many devices
/// reduce as can at once, at most 32; each of them sends and receives one share more than the others.
NcclGraphs nccl_search(const NcclNode& node, NcclArchitecture architecture);

}  // namespace tandem::sim
