#include "reports/trace/busy_time.hpp"

#include <algorithm>

namespace tandem {

namespace {

/// Cuts the intervals to the window and returns their length as a union.
Duration covered(std::vector<Interval> intervals, const Interval& window) {
  std::erase_if(intervals, [&](const Interval& i) { return i.second <= window.first || i.first >= window.second; });
  std::sort(intervals.begin(), intervals.end());
  Duration sum, reached = window.first;
  for (const auto& [from, to] : intervals) {
    const Duration begin = std::max(from, reached), end = std::min(to, window.second);
    if (end > begin) sum += end - begin;
    reached = std::max(reached, end);
  }
  return sum;
}

}  // namespace

BusyTime busy_time(std::vector<Interval> computation, std::vector<Interval> communication, const Interval& window) {
  BusyTime out;
  out.window = window.second - window.first;
  out.communicating = covered(communication, window);
  out.computing = covered(computation, window);
  computation.insert(computation.end(), communication.begin(), communication.end());
  const Duration any = covered(std::move(computation), window);
  out.exposed = any - out.computing;
  out.idle = out.window - any;
  return out;
}

}  // namespace tandem
