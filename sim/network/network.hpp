#pragma once
// Transfers that may contend: each runs through its segments at the current max-min fair rate. After all starts and ends of one
// time, rates are computed once, when time is about to go on: in between no byte moves.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/event_queue.hpp"
#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// A fluid network without latency: gives the time at which the last byte of a transfer has left.
class Network {
 public:
  /// `uses`: the sets of links that segments name. `transfers`: how many there may be. `queue` must outlive the
  /// network.
  Network(std::vector<Capacity> links, const std::vector<std::vector<LinkUse>>& uses, std::size_t transfers,
          EventQueue& queue);

  /// Starts transfer `id`, which must be idle, at queue.now(). `segments` must outlive the transfer.
  void start(std::uint32_t id, std::span<const Segment> segments);

  /// Whether the queue has an event to pop. Computes rates anew first if the next event is later than now.
  bool pending();

  /// Handles an event whose target is a transfer. True if the transfer has now ended; false if it goes on with its next
  /// segment, or if the event is out of date because the rate changed.
  bool take(const Event& event);

  /// Prefetches what the next event of a transfer will read.
  void expect(std::uint32_t id) const { __builtin_prefetch(&transfers_[id]); }

 private:
  /// One cache line: thousands are under way, and every event reads another one.
  struct alignas(64) ActiveTransfer {
    Work remaining = 0;
    Rate rate = 0;
    Duration since;  ///< time for which `remaining` holds
    const Segment* segment = nullptr;  ///< under way; nullptr: idle
    std::uint32_t more = 0;            ///< segments after it
    std::uint32_t first_use = 0, end_use = 0;  ///< the segment's range in `uses_`
    std::uint32_t version = 0;
    std::uint32_t visit = 0;
  };
  /// Active transfers of a link: nearly always few.
  struct OnLink {
    static constexpr std::uint32_t kHere = 3;
    std::uint32_t count = 0;
    std::array<std::uint32_t, kHere> here;  ///< the first of them; the others in `more_`
  };

  LinkUses uses(const ActiveTransfer& t) const { return {uses_.data() + t.first_use, uses_.data() + t.end_use}; }
  inline std::uint32_t& on_link(std::uint32_t link, std::uint32_t i);
  inline void join(std::uint32_t id);
  inline void leave(std::uint32_t id);
  inline void settle(ActiveTransfer& t);
  inline void share_out();
  inline void share(std::uint32_t link);
  inline void collect(std::uint32_t link);
  inline void set_rate(std::uint32_t id, Rate rate);

  std::vector<LinkUse> uses_;             ///< all sets, one after the other
  std::vector<std::uint32_t> first_use_;  ///< by set
  std::vector<Rate> alone_;               ///< by set: rate of a transfer that is alone on its links
  std::vector<ActiveTransfer> transfers_;
  std::vector<OnLink> on_link_;
  std::vector<std::vector<std::uint32_t>> more_;  ///< by link
  std::vector<std::uint32_t> link_visit_;
  std::uint32_t visit_ = 0;
  FairShare fair_;
  EventQueue& queue_;
  std::vector<std::uint32_t> changed_;         ///< links that a transfer joined or left at this time
  std::vector<std::uint32_t> component_, open_;  // scratch
  std::vector<LinkUses> bundles_;
  std::vector<Rate> rates_;
};

}  // namespace tandem::sim
