#pragma once
// Faults of a cluster: slow devices, slow and lost links, jitter. Part
// of a plan's cluster. The simulator applies them, the runtime does not.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// Devices with computations 1 / factor times as long: that of a rank, one of a node by its index there, or all of a node.
struct SlowDevice {
  std::int64_t rank = -1;              ///< -1: named by node and device
  std::int64_t node = -1, device = -1;  ///< device -1: all of the node
  double factor = 1;                   ///< remaining share of its speed, 0.0001 to 1
};

/// Links by name as the topology has them: "node 0: NIC 2 to leaf" is one direction, "node 0: NIC 2 <-> leaf" both, and '*'
/// stands for any number.
struct SlowLink {
  std::string link;
  double factor = 1;                   ///< remaining share of its bandwidth, 0.0001 to 1
};

/// Random factors of computation times: log-normal with mean 1, drawn for every computation of every rank.
struct Jitter {
  double relative = 0;                 ///< standard deviation of the factor; 0: none
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;              ///< number of draws, from `seed` on: the first gives the step, all give mean and spread
};

struct Perturbation {
  std::vector<SlowDevice> slow_devices;
  std::vector<SlowLink> slow_links;
  std::vector<std::string> lost_links;
  Jitter jitter;

  bool of_machine() const { return !slow_devices.empty() || !slow_links.empty() || !lost_links.empty(); }
  bool any() const { return of_machine() || jitter.relative > 0; }
};

}  // namespace tandem
