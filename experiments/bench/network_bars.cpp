// Cases of the network alone (event queue and max-min sharing), without a plan.
#include <cstdio>
#include <vector>

#include "experiments/bench/bars.hpp"
#include "experiments/bench/flows.hpp"
#include "sim/network/network.hpp"

namespace tandem::bench {
namespace {

using namespace tandem::sim;

/// Messages of a ring all-reduce: a rank sends its next message once its last one has left and its predecessor's has arrived.
class Ring {
 public:
  explicit Ring(std::uint32_t n)
      : n_(n), steps_(2 * (n - 1)), sent_(n, 0), came_(n, 0), busy_(n, false), segments_(n),
        network_(links(n), uses(n), n, queue_) {
    for (std::uint32_t r = 0; r < n; ++r) segments_[r] = {{r, work_of(Bytes(kRingBytes / n))}};
  }

  Duration run() {
    for (std::uint32_t r = 0; r < n_; ++r) go(r);
    while (network_.pending()) {
      const Event event = queue_.pop();
      if (!network_.take(event)) continue;
      const std::uint32_t from = event.target, to = (from + 1) % n_;
      busy_[from] = false;
      ++sent_[from];
      ++came_[to];
      go(from);
      go(to);
    }
    return queue_.now();
  }
  std::int64_t events() const { return queue_.popped(); }

 private:
  static std::vector<Capacity> links(std::uint32_t n) {
    return std::vector<Capacity>(n, {rate_of(Bandwidth::bytes_per_second(kRingBandwidth)), {}});
  }
  static std::vector<std::vector<LinkUse>> uses(std::uint32_t n) {
    std::vector<std::vector<LinkUse>> all;
    for (std::uint32_t r = 0; r < n; ++r) all.push_back({{r, 1}});
    return all;
  }
  void go(std::uint32_t r) {
    if (busy_[r] || sent_[r] == steps_ || came_[r] < sent_[r]) return;
    busy_[r] = true;
    network_.start(r, segments_[r]);
  }

  std::uint32_t n_, steps_;
  std::vector<std::uint32_t> sent_, came_;
  std::vector<bool> busy_;
  std::vector<std::vector<Segment>> segments_;
  EventQueue queue_;
  Network network_;
};

}  // namespace

int ring(int devices) {
  Ring ring(static_cast<std::uint32_t>(devices));
  const double seconds = ring.run().seconds();
  std::printf("  %lld events, simulated %.9f s\n", static_cast<long long>(ring.events()), seconds);
  return 0;
}

int desynchronised() {
  const std::vector<TimedFlow> flows = desynchronised_flows();
  std::vector<Capacity> links(2 * kFlowHosts, {rate_of(Bandwidth::bytes_per_second(kFlowBandwidth)), {}});
  std::vector<std::vector<LinkUse>> uses;
  std::vector<std::vector<Segment>> segments;
  for (const TimedFlow& f : flows) {
    segments.push_back({{static_cast<std::uint32_t>(uses.size()), work_of(Bytes(static_cast<std::int64_t>(f.bytes)))}});
    uses.push_back({{static_cast<std::uint32_t>(f.from), 1}, {static_cast<std::uint32_t>(kFlowHosts + f.to), 1}});
  }
  EventQueue queue;
  Network network(std::move(links), std::move(uses), flows.size(), queue);
  const auto n = static_cast<std::uint32_t>(flows.size());
  for (std::uint32_t f = 0; f < n; ++f) queue.schedule(Duration::seconds(flows[f].start), n + f, 0);
  Duration end;
  while (network.pending()) {
    const Event event = queue.pop();
    if (event.target >= n) network.start(event.target - n, segments[event.target - n]);
    else if (network.take(event)) end = queue.now();  // outdated events come later, after changes of rate
  }
  std::printf("  %u flows end at %.9f s, %lld events\n", n, end.seconds(), static_cast<long long>(queue.popped()));
  return 0;
}

}  // namespace tandem::bench
