#pragma once
// Whether the hosts' memory holds what a plan offloads.

#include <cstdint>
#include <string>
#include <string_view>

#include "reports/prediction/prediction.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// What offloaded tensors take of the memory of the host that needs most.
struct HostMemoryUse {
  std::int64_t of_rank = 0;  ///< bytes of the rank that needs most; 0: nothing is offloaded
  std::int64_t ranks = 0;    ///< that share the host
  std::int64_t needed = 0;   ///< bytes of all of them
  std::int64_t has = 0;      ///< bytes of the host; 0: its preset does not say
  bool fits() const { return has == 0 || needed <= has; }
};

/// A processor is its own host and needs nothing. Throws ConfigError if the cluster's file cannot be read.
HostMemoryUse host_memory_use(const Setup& setup, const ClusterSpec& cluster);

/// Notes of plans that need more than a host has begin like this.
inline constexpr std::string_view kHostFull = "the host's memory is too small: ";

/// "offloaded tensors take at most 12.5 GiB of the host's memory for each rank, 100 GiB of 2.00 TiB for 8 ranks". Empty if nothing
/// is offloaded.
std::string host_memory_note(const HostMemoryUse& use);

/// The memory that a plan which does not fit lacks: "the memory of H100", or "the memory of its hosts".
std::string lacking_memory(const Prediction& prediction, const Device& device);

}  // namespace tandem::sim
