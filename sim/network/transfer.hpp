#pragma once
// Transfers of all ranks as values: who takes part, and which links each message uses.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "models/base/ids.hpp"
#include "models/base/units.hpp"
#include "sim/nccl/nccl.hpp"
#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// Rate of an idle processor. Divisible by every sharing degree up to 16, so that equal shares are exact.
inline constexpr Rate kCoreRate = 720'720'000'000;

/// Work of a computation that takes `alone` on an idle processor, on links of a core port.
inline Work core_work(Duration alone) { return static_cast<Work>(alone.ps()) * kCoreRate; }

/// NCCL's choice of an algorithm for a message, and another one that would take less, each alone on its links.
struct SlowChoice {
  NcclAlgorithm chosen, other;
  double chosen_s, other_s;
  double lost_s() const { return chosen_s - other_s; }
};
/// By message: of its transfers the one that loses most.
using SlowChoices = std::map<std::uint32_t, SlowChoice>;

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
  SlowChoices slow_choices;
};

}  // namespace tandem::sim
