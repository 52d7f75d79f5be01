#include "reports/trace/launch_stacks.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace tandem {

namespace {

/// Order by thread and time; of ranges that begin together, the longer one first.
std::vector<HostRange> nested_order(std::vector<HostRange> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const HostRange& a, const HostRange& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  return ranges;
}

std::vector<HostLaunch> by_time(std::vector<HostLaunch> launches) {
  std::stable_sort(launches.begin(), launches.end(), [](const HostLaunch& a, const HostLaunch& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.at < b.at;
  });
  return launches;
}

/// The ranges that are open on a thread as time goes on. Launches must come in the order of by_time().
class OpenRanges {
 public:
  explicit OpenRanges(const std::vector<HostRange>& ranges) : ranges_(nested_order(ranges)) {}

  /// Ranges around a launch, the outermost first.
  const std::vector<const HostRange*>& at(const HostLaunch& l) {
    if (std::exchange(thread_, l.thread) != l.thread) open_.clear();
    for (; next_ < ranges_.size() && is_before(ranges_[next_], l); ++next_) {
      if (ranges_[next_].thread != l.thread) continue;
      close(ranges_[next_].start);
      open_.push_back(&ranges_[next_]);
    }
    close(l.at);
    return open_;
  }

 private:
  static bool is_before(const HostRange& r, const HostLaunch& l) {
    return r.thread != l.thread ? r.thread < l.thread : r.start <= l.at;
  }
  void close(Duration moment) {
    std::erase_if(open_, [&](const HostRange* r) { return r->end <= moment; });
  }

  std::vector<HostRange> ranges_;
  std::vector<const HostRange*> open_;
  std::size_t next_ = 0;
  std::int64_t thread_ = 0;
};

}  // namespace

LaunchStacks::LaunchStacks(const DeviceTrace& trace) {
  std::map<std::pair<std::int32_t, std::uint32_t>, std::int32_t> known;
  const auto node = [&](std::int32_t outer, std::uint32_t name) {
    const auto [at, added] = known.try_emplace({outer, name}, static_cast<std::int32_t>(nodes_.size()));
    if (added) nodes_.push_back({outer, name});
    return at->second;
  };
  OpenRanges open(trace.ranges);
  std::unordered_map<std::int64_t, std::pair<std::int32_t, bool>> stack_of;  // and whether a graph was replayed, by correlation
  for (const HostLaunch& l : by_time(trace.launches)) {
    std::int32_t stack = kNone;
    for (const HostRange* r : open.at(l)) stack = node(stack, r->name);
    stack_of.try_emplace(l.correlation, stack, l.graph);
  }
  event_stacks_.reserve(trace.events.size());
  replayed_.reserve(trace.events.size());
  for (const DeviceEvent& e : trace.events) {
    const auto found = stack_of.find(e.correlation);
    event_stacks_.push_back(found == stack_of.end() ? kNone : found->second.first);
    replayed_.push_back(found != stack_of.end() && found->second.second);
  }
}

}  // namespace tandem
