#include "reports/trace/trace_steps.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tandem {

namespace {

constexpr double kWarmUp = 0.05;  ///< how much longer than all later steps a first step is that warmed up, as a share

struct Mark {
  std::string name;
  Duration start, end;
};

/// Annotations of steps, ascending; the parts of one step on several streams are joined.
std::vector<Mark> marks(const DeviceTrace& trace, const std::vector<HostRange>& ranges) {
  std::map<std::string, Mark> found;
  for (const HostRange& r : ranges) {
    const std::string& name = trace.names[r.name];
    if (!name.starts_with("ProfilerStep#")) continue;
    const auto [at, added] = found.try_emplace(name, Mark{name, r.start, r.end});
    at->second.start = std::min(at->second.start, r.start);
    at->second.end = std::max(at->second.end, r.end);
  }
  std::vector<Mark> out;
  for (const auto& [name, mark] : found) out.push_back(mark);
  std::sort(out.begin(), out.end(), [](const Mark& a, const Mark& b) { return a.start < b.start; });
  return out;
}

/// When each device event was launched; its start where no launch is known.
std::vector<Duration> launched(const DeviceTrace& trace) {
  std::unordered_map<std::int64_t, Duration> at;
  for (const HostLaunch& l : trace.launches) at.try_emplace(l.correlation, l.at);
  std::vector<Duration> out;
  out.reserve(trace.events.size());
  for (const DeviceEvent& e : trace.events) {
    const auto found = e.correlation < 0 ? at.end() : at.find(e.correlation);
    out.push_back(found == at.end() ? e.start : found->second);
  }
  return out;
}

/// Index of the step in which a moment lies; -1: before the first, or after the end of the last.
std::ptrdiff_t step_at(const std::vector<Mark>& marks, Duration moment) {
  const auto after = std::upper_bound(marks.begin(), marks.end(), moment, [](Duration t, const Mark& m) { return t < m.start; });
  if (after == marks.end() && moment > marks.back().end) return -1;
  return after - marks.begin() - 1;
}

/// Sorts the events into the steps that launched them, and sets begins and ends.
std::vector<TraceStep> filled(const DeviceTrace& trace, const std::vector<Mark>& marks, const std::vector<Duration>& launched) {
  std::vector<TraceStep> steps;
  for (const Mark& m : marks) steps.push_back({m.name, m.start, m.end, {}});
  std::vector<Duration> busy_until(marks.size() + 1);  // by step, from 1: end of its work; 0: work launched before
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const std::ptrdiff_t s = step_at(marks, launched[i]);
    if (s >= 0) steps[static_cast<std::size_t>(s)].events.push_back(static_cast<std::uint32_t>(i));
    if (s >= 0 || launched[i] < marks.front().start) {
      Duration& until = busy_until[static_cast<std::size_t>(s + 1)];
      until = std::max(until, trace.events[i].end());
    }
  }
  Duration busy;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    busy = std::max(busy, busy_until[s]);
    steps[s].begin = std::max(steps[s].begin, busy);
    if (s > 0) steps[s - 1].end = steps[s].begin;
  }
  steps.back().end = std::max({steps.back().begin, marks.back().end, busy_until.back()});
  return steps;
}

TraceStep whole(const DeviceTrace& trace) {
  TraceStep step{"the whole trace", trace.events.front().start, Duration(), {}};
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    step.events.push_back(static_cast<std::uint32_t>(i));
    step.end = std::max(step.end, trace.events[i].end());
  }
  for (const HostRange& r : trace.ranges) {
    step.begin = std::min(step.begin, r.start);
    step.end = std::max(step.end, r.end);
  }
  return step;
}

/// Leaves out steps without work, then a first step that warmed up.
void choose(TraceSteps& found) {
  found.incomplete = std::erase_if(found.steps, [](const TraceStep& s) { return s.events.empty() || s.end <= s.begin; });
  if (found.steps.size() < 3) return;
  Duration longest;
  for (std::size_t i = 1; i < found.steps.size(); ++i) longest = std::max(longest, found.steps[i].time());
  if (found.steps.front().time().seconds() <= (1 + kWarmUp) * longest.seconds()) return;
  found.warm_up = found.steps.front().name;
  found.steps.erase(found.steps.begin());
}

}  // namespace

TraceSteps steps_of(const DeviceTrace& trace, std::int64_t whole_steps) {
  TraceSteps out;
  std::vector<Mark> host = marks(trace, trace.ranges), device;
  if (host.empty()) device = marks(trace, trace.device_ranges);
  if (host.empty() && device.empty()) {
    out.steps = {whole(trace)};
    out.divisor = whole_steps;
    return out;
  }
  out.evidence = host.empty() ? StepEvidence::device_annotations : StepEvidence::host_annotations;
  std::vector<Duration> moments;
  if (!host.empty()) moments = launched(trace);
  else for (const DeviceEvent& e : trace.events) moments.push_back(e.start);
  out.steps = filled(trace, host.empty() ? device : host, moments);
  choose(out);
  return out;
}

}  // namespace tandem
