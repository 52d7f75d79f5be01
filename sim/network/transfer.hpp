#pragma once
// Transfers of all ranks as values: who takes part, and which links each message uses.

#include <array>
#include <cstdint>
#include <vector>

#include "models/base/ids.hpp"
#include "models/base/units.hpp"
#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// Rate of an idle processor. Divisible by every sharing degree up to 16, so that equal shares are exact.
inline constexpr Rate kCoreRate = 720'720'000'000;

/// Work of a computation that takes `alone` on an idle processor, on links of a core port.
inline Work core_work(Duration alone) { return static_cast<Work>(alone.ps()) * kCoreRate; }

/// One message over one transfer: two chains at most (one, unless the library pipelines its tiers), each running its
/// segments in turn. Ends `tail` after the last byte of the later chain.
struct TransferPlan {
  std::uint32_t message = 0;
  std::array<std::vector<Segment>, 2> chains;  ///< Segment::uses indexes Transfer::uses
  Duration tail;                               ///< latencies and the library's overhead
};

/// A concrete group of ranks, or a sender and its receiver, on one port.
struct Transfer {
  std::uint32_t port = 0;
  std::vector<Rank> members;
  bool directed = false;                   ///< members are a sender and its receiver
  std::vector<std::vector<LinkUse>> uses;  ///< ascending link
  std::vector<TransferPlan> plans;         ///< ascending message
};

struct TransferMap {
  std::vector<Transfer> transfers;
  /// By 2 * port + receiver, then rank: index into transfers or -1.
  std::vector<std::vector<std::int32_t>> transfer_of;
  std::vector<Capacity> links;  ///< the topology's, then processors and nodes where ranks share them
  bool shared_cores = false;    ///< computation goes through the core port
};

}  // namespace tandem::sim
