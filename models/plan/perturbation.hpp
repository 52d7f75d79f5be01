#pragma once
// What is not as it should be in a cluster: slow devices, slow and lost links, jitter. Part of a plan's cluster; simulated, never
// performed.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// A device whose computations take 1 / factor of their time. Named by a rank on it, or by its node and its place there.
struct SlowDevice {
  std::int64_t rank = -1;              ///< -1: named by node and device
  std::int64_t node = -1, device = -1;
  double factor = 1;                   ///< share of its speed that is left, 0.0001 to 1
};

/// Links by name as the topology has them: "node 0: NIC 2 to leaf" is one direction, "node 0: NIC 2 <-> leaf" both, and '*'
/// stands for any number.
struct SlowLink {
  std::string link;
  double factor = 1;                   ///< share of its bandwidth that is left, 0.0001 to 1
};

/// Every computation of every rank takes a log-normal factor of its time, of mean 1.
struct Jitter {
  double relative = 0;                 ///< standard deviation of the factor; 0: none
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;              ///< draws from `seed` on: the step is that of the first, all of them give mean and spread
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
