#pragma once
// How many channels NCCL opens: its search over a node's links (NVIDIA/nccl, src/graph/search.cc, commit 5067397c of 2026-06-11),
// for devices behind a switch.

#include <cstdint>

#include "sim/nccl/nccl.hpp"

namespace tandem::sim {

/// Input of the search. Rates are in bytes/s as the hardware has them.
struct NcclNode {
  std::int64_t ranks = 1;   ///< ranks of the group on the node
  double links = 0;         ///< sum of the rates of a device's links inside its node
  std::int64_t rings = 0;   ///< rings of a cube mesh, each over one cable of `links`; 0: a switch joins the devices
  std::int64_t nics = 0;    ///< NICs next to the group's ranks; 0: the group stays in its node
  double nic = 0;           ///< rate of one NIC
  bool pcie = false;        ///< devices are joined over PCIe
};

/// Rings: tries NCCL's list of rates from the highest that a path carries down to half of the best. The most bandwidth wins; ties
/// go to the higher rate. Few fast channels are then split in two. Trees: as many channels, each at the highest rate that fits, and
/// inside nodes at up to twice the rate between them. NVLS (from Hopper on): as many devices as possible, at most 32, reduce in the
/// nodes' switches; each of them sends and receives one share more than the others.
NcclGraphs nccl_search(const NcclNode& node, NcclArchitecture architecture);

}  // namespace tandem::sim
