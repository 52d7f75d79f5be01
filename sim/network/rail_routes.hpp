#pragma once
// Routes of rows between nodes on rails, as NCCL lays them since 2.12 (PXN; NVIDIA/nccl, src/graph/search.cc, ncclTopoGetNetDev).

#include <cstdint>
#include <vector>

#include "topology/topology.hpp"

namespace tandem::sim {

/// The routes of one group's sends. NCCL sends out of the NIC that the receiver's place in its node has, here (the receiver's
/// rail): NVLink takes the rows to the device beside that NIC, if it is in the group. Rows arrive at the receiver's own NIC.
class RailRoutes {
 public:
  RailRoutes(const Topology& topology, const std::vector<Rank>& members);

  /// Links from one member's device to another's, in order. The way over the rail is taken where it crosses fewer links between
  /// the nodes. Without rails it crosses as many, and its NIC is as fast as the sender's.
  std::vector<std::int32_t> route(DeviceId from, DeviceId to) const;

 private:
  const Topology& topology_;
  std::vector<DeviceId> devices_;  ///< ascending
};

}  // namespace tandem::sim
