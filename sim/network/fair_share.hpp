#pragma once
// Max-min fair sharing of links by bundles of flows, in integers: rates do not depend on an order of summation, so a
// folded and an unfolded simulation agree to the last bit.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/base/units.hpp"
#include "sim/cost/time_limit.hpp"

namespace tandem::sim {

/// A rate: thousandths of a byte per second on a link; on a processor, parts of kCoreRate, its full rate.
using Rate = std::int64_t;
/// Rate x picoseconds. 128 bits: a terabyte at this grain passes 64.
__extension__ typedef __int128 Work;

inline constexpr Rate kUnlimited = INT64_MAX;

/// Rate of a bandwidth. Finite, positive, at most 9.2e15 bytes per second; anything faster counts as unlimited.
Rate rate_of(Bandwidth bandwidth);
/// Work of moving `bytes`.
Work work_of(Bytes bytes);
/// Picoseconds that `work` takes at `rate`, rounded up. `rate` > 0.
Duration time_of(Work work, Rate rate);

/// A link's capacity. `by_users[k-1]`, if given, replaces `rate` while k flows use the link (the last entry for
/// more).
struct Capacity {
  Rate rate = 0;
  std::vector<Rate> by_users;
  Rate with(std::int64_t users) const {
    if (by_users.empty()) return rate;
    const auto last = static_cast<std::int64_t>(by_users.size());
    return by_users[static_cast<std::size_t>(std::clamp<std::int64_t>(users, 1, last) - 1)];
  }
};

/// The number of flows that a bundle sends over a link.
struct LinkUse {
  std::uint32_t link;
  std::int32_t flows;
  auto operator<=>(const LinkUse&) const = default;
};
using LinkUses = std::span<const LinkUse>;

/// The work of each flow of a bundle.
struct Segment {
  std::uint32_t uses = 0;  ///< index of the bundle's link uses in a separate table
  Work work = 0;
};

/// Rate of a bundle that is alone on its links. `links[i]`: the capacity of link i.
template <class Links>
Rate rate_alone(LinkUses bundle, const Links& links) {
  Rate rate = kUnlimited;
  for (const LinkUse& use : bundle) {
    const Rate all = links[use.link].with(use.flows);
    if (all != kUnlimited) rate = std::min(rate, all / use.flows);
  }
  return rate;
}

/// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2) over bundles: all flows of a bundle have one
/// rate, that of the slowest, because each step of a collective waits for all of its messages.
class FairShare {
 public:
  explicit FairShare(std::vector<Capacity> links);

  /// Rates of one flow of each bundle, when these bundles and no others are active. `rates` has a place for each. A
  /// bundle that uses no link is unlimited.
  void solve(std::span<const LinkUses> bundles, std::span<Rate> rates);

  /// Rate of a flow of a bundle that is alone on its links; at least 1.
  Rate alone(LinkUses bundle) const { return std::max<Rate>(rate_alone(bundle, capacities_), 1); }

  std::size_t links() const { return capacities_.size(); }

 private:
  /// State of a link while solving: capacity and flows not fixed yet, and the share of each such flow.
  struct Left {
    Rate rate = 0;
    std::int64_t users = 0;
    Rate share = 0;
    bool changed = true;               ///< `share` is out of date
    std::uint32_t first = 0, end = 0;  ///< its bundles in `on_`
  };
  void open(std::span<const LinkUses> bundles);
  Rate tightest();
  void fix(LinkUses bundle, Rate rate);

  std::vector<Capacity> capacities_;
  std::vector<Left> left_;
  std::vector<std::uint32_t> touched_, open_, tight_;  ///< links: used, still limiting, with the least share
  std::vector<std::uint32_t> on_;                      ///< bundles by link
};

/// Time of two chains that run at once, each segment by segment, alone on the links. `uses`: table of Segment::uses.
template <class Links>
Duration time_alone(const std::array<std::vector<Segment>, 2>& chains, const std::vector<std::vector<LinkUse>>& uses,
                    const Links& links) {
  Duration longest;
  for (const auto& chain : chains) {
    Duration sum;
    for (const Segment& s : chain) {
      sum += time_of(s.work, rate_alone(uses[s.uses], links));
      if (sum.ps() > kLongestPicoseconds) refuse_message();
    }
    longest = std::max(longest, sum);
  }
  return longest;
}

}  // namespace tandem::sim
