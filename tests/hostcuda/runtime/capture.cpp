#include "tests/hostcuda/runtime/capture.hpp"

#include <atomic>
#include <deque>

#include "tests/hostcuda/runtime/point.hpp"

namespace tandem::hostcuda {

bool Capture::reaches(const std::set<std::size_t>& last, const std::set<std::size_t>& nodes_wanted) const {
  std::set<std::size_t> reached = last;
  for (auto at = reached.rbegin(); at != reached.rend();) {  // a node waits only for earlier ones
    const std::size_t node = *at;
    reached.insert(nodes[node].after.begin(), nodes[node].after.end());
    at = std::make_reverse_iterator(reached.find(node));
  }
  for (const std::size_t n : nodes_wanted)
    if (!reached.contains(n)) return false;
  return true;
}

void replay(const std::vector<Node>& nodes, std::size_t lanes) {
  static std::atomic<std::uint64_t> replays = 0;
  std::deque<Point> done(nodes.size());
  const auto serve = [&](std::size_t lane, std::uint64_t number) {
    Pace pace(number);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].lane != lane) continue;
      for (const std::size_t before : nodes[n].after) done[before].wait();
      pace.lag();
      perform(nodes[n].work);
      done[n].reach();
    }
  };
  std::vector<std::thread> threads;
  const std::uint64_t number = (std::uint64_t{1} << 32) + replays.fetch_add(lanes, std::memory_order_relaxed);
  for (std::size_t lane = 0; lane < lanes; ++lane) threads.emplace_back(serve, lane, number + lane);
  for (std::thread& t : threads) t.join();
}

}  // namespace tandem::hostcuda
