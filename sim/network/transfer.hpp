#pragma once
// Transfers of all ranks: who takes part, and which links each message uses.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "models/base/ids.hpp"
#include "models/base/units.hpp"
#include "sim/nccl/nccl.hpp"
#include "sim/network/fair_share.hpp"
#include "sim/network/link_capacities.hpp"

namespace tandem::sim {

/// Rate of an idle processor. Divisible by every sharing degree up to 16, so that equal shares are exact.
inline constexpr Rate kCoreRate = 720'720'000'000;

/// Work of a computation that takes `alone` on an idle processor; it is a flow on the link of a processor.
inline Work core_work(Duration alone) { return static_cast<Work>(alone.ps()) * kCoreRate; }

/// NCCL's choice of an algorithm for a message, and a faster algorithm; seconds of each alone on its links.
struct SlowChoice {
  NcclAlgorithm chosen, other;
  double chosen_s, other_s;
  double lost_s() const { return chosen_s - other_s; }
};
/// By message: the choice that loses most among its transfers.
using SlowChoices = std::map<std::uint32_t, SlowChoice>;

/// One message over one transfer: at most two chains that run at once (two if the library pipelines its tiers), each with
/// its segments in turn. It ends `tail` after the last byte of the later chain.
struct TransferPlan {
  std::uint32_t message = 0;
  std::array<std::vector<Segment>, 2> chains;  ///< Segment::uses indexes Transfer::uses
  Duration tail;                               ///< latencies and the library's overhead
};

/// A group of ranks, or a sender and its receiver, on one port.
struct Transfer {
  std::uint32_t port = 0;
  std::vector<Rank> members;
  bool directed = false;                   ///< members are a sender and its receiver
  std::vector<std::vector<LinkUse>> uses;  ///< ascending link
  std::vector<TransferPlan> plans;         ///< ascending message
};

/// A transfer, and by how much its link ids grow with each period of the topology.
struct TransferPattern {
  Transfer transfer;
  std::vector<std::vector<std::int32_t>> strides;  ///< as `transfer.uses`; empty in a map without period
};

/// A pattern with its ranks and links shifted by `periods` periods.
struct MovedTransfer {
  std::uint32_t pattern = 0;
  std::int32_t periods = 0;
};

/// Transfers that differ by whole periods of the topology have one pattern: a million ranks have a few hundred.
struct TransferMap {
  std::vector<TransferPattern> patterns;  ///< in order of their first transfers
  std::vector<MovedTransfer> transfers;
  /// Devices after which the topology repeats, with one rank a device. 0: every transfer has a pattern of its own, because routes,
  /// rows of experts or shared processors do not repeat, or only after the last device.
  std::int32_t period = 0;
  /// By 2 * port + receiver, then rank: index into transfers or -1.
  std::vector<std::vector<std::int32_t>> transfer_of;
  LinkCapacities links;         ///< the topology's, then processors and nodes if ranks share them
  bool shared_cores = false;    ///< ranks share processors: computations are transfers on the core port
  SlowChoices slow_choices;

  /// The pattern of a transfer, with the ranks and links of one of its transfers.
  const Transfer& pattern(std::size_t transfer) const { return patterns[transfers[transfer].pattern].transfer; }
  std::size_t members(std::size_t transfer) const { return pattern(transfer).members.size(); }
  std::size_t member(std::size_t transfer, std::size_t m) const {
    return static_cast<std::size_t>(pattern(transfer).members[m].value() + transfers[transfer].periods * period);
  }
  /// Calls `see(place in uses, use)` for each use of a link.
  template <class See>
  void each_use(std::size_t transfer, const See& see) const {
    const TransferPattern& p = patterns[transfers[transfer].pattern];
    const std::int32_t periods = transfers[transfer].periods;
    for (std::size_t u = 0; u < p.transfer.uses.size(); ++u)
      for (std::size_t i = 0; i < p.transfer.uses[u].size(); ++i) {
        LinkUse use = p.transfer.uses[u][i];
        if (periods != 0) use.link += static_cast<std::uint32_t>(periods * p.strides[u][i]);
        see(u, use);
      }
  }
};

}  // namespace tandem::sim
