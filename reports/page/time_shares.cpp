#include "reports/page/time_shares.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tandem {

namespace {

constexpr std::array<const char*, 6> kBehind = {"tensor_comm", "context_comm", "expert_comm", "data_comm", "pipeline_comm", "host_copy"};

/// Index into kBehind of a task that is not on the compute stream.
std::size_t behind(const SavedTask& t) {
  if (t.stream == "tensor") return t.group == "context" ? 1 : t.group == "expert" ? 2 : 0;
  if (t.stream == "data") return 3;
  return t.stream == "host" ? 5 : 4;
}

struct Change {
  Duration at;
  std::int64_t count;  ///< +1: begins
  std::size_t part;
};

std::vector<Change> changes(const SavedTimeline& timeline, const SavedLane& lane) {
  std::vector<Change> out;
  for (const SavedSpan& s : lane.spans) {
    const SavedTask& task = timeline.tasks[s.task];
    const std::size_t part = task.stream == "compute" ? static_cast<std::size_t>(s.phase) : timeline.phases.size() + behind(task);
    const Duration from = std::clamp(s.started, Duration(), timeline.step_time),
                   to = std::clamp(s.ended, Duration(), timeline.step_time);
    out.push_back({from, 1, part});
    out.push_back({to, -1, part});
  }
  std::sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  return out;
}

}  // namespace

TimeShares time_shares(const SavedTimeline& timeline, const SavedLane& lane) {
  const std::size_t parts = timeline.phases.size() + kBehind.size();
  std::vector<std::int64_t> running(parts);
  std::vector<Duration> sums(parts + 1);  // the last: nothing runs
  Duration now;
  const auto advance = [&](Duration to) {
    const auto first = std::find_if(running.begin(), running.end(), [](std::int64_t n) { return n > 0; });
    sums[static_cast<std::size_t>(first - running.begin())] += to - now;
    now = to;
  };
  for (const Change& c : changes(timeline, lane)) {
    advance(c.at);
    running[c.part] += c.count;
  }
  advance(timeline.step_time);
  TimeShares out;
  for (std::size_t p = 0; p <= parts; ++p)
    if (sums[p] > Duration())
      out.emplace_back(p == parts                   ? "waiting"
                       : p < timeline.phases.size() ? timeline.phases[p]
                                                    : kBehind[p - timeline.phases.size()],
                       sums[p]);
  return out;
}

}  // namespace tandem
