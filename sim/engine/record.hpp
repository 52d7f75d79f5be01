#pragma once
// What happened to a role.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/large_pages.hpp"
#include "sim/engine/run_table.hpp"

namespace tandem::sim {

/// When one instance of a role ran.
struct InstanceRecord {
  static constexpr PatternId kSingly = UINT32_MAX;      ///< its tasks were simulated one by one
  static constexpr PatternId kInRuns = UINT32_MAX - 1;  ///< its runs of tasks were
  static constexpr PatternId kAhead = UINT32_MAX - 2;   ///< no task of it has been looked at yet
  static constexpr PatternId kDelayed = UINT32_MAX - 3;  ///< nor of this, some of whose computations take longer
  std::int64_t start = 0;      ///< ps; of its pattern
  PatternId pattern = kAhead;
  std::uint32_t first = 0;  ///< of its times in Times::ended, where it has no pattern

  bool singly() const { return pattern == kSingly; }
  bool in_runs() const { return pattern == kInRuns; }
  bool has_pattern() const { return pattern < kDelayed; }
};

/// What is kept of all roles, so that what thousands of them do at one time lies together. Picoseconds from the start of the step; -1:
/// never.
struct Times {
  template <class T>
  using Many = std::vector<T, LargePages<T>>;
  Many<InstanceRecord> instances;  ///< by lane program, instance, and role of the lane program
  Many<std::int64_t> ended;        ///< of instances without a pattern as they were begun: see RunTask
  Many<std::int64_t> issued;  ///< of the same; only of hosts that compute themselves
};

/// From the task at `position` of a role on, the host issues task n of a lane so much later than at n launches.
struct HostLate {
  std::uint32_t position;
  std::int64_t ps;
};

/// What happened to one role. Picoseconds from the start of the step.
struct Record {
  std::size_t first_instance = 0, roles = 1;  ///< its first in Times::instances, and the way to the next
  std::array<std::vector<HostLate>, kLanes> late;  ///< by lane, ascending; empty where its host never waits
  Duration end;                        ///< of the role's last task

  /// How much later than at n launches the host issues the task at `position` of a lane, which is task n. Picoseconds.
  std::int64_t late_at(std::size_t lane, std::uint32_t position) const {
    const auto later = std::upper_bound(late[lane].begin(), late[lane].end(), position,
                                        [](std::uint32_t p, const HostLate& l) { return p < l.position; });
    return later == late[lane].begin() ? 0 : (later - 1)->ps;
  }
  void set_late(std::size_t lane, HostLate now) {
    std::vector<HostLate>& known = late[lane];
    if ((known.empty() ? 0 : known.back().ps) == now.ps) return;
    if (!known.empty() && known.back().position == now.position) known.back() = now;
    else known.push_back(now);
  }

  const InstanceRecord& at(const Times& times, std::uint32_t instance) const {
    return times.instances[first_instance + instance * roles];
  }
  /// `step`: of the task.
  std::int64_t ended_of(const Times& times, const Patterns& patterns, const RunTask& step, std::uint32_t instance,
                        std::uint16_t task) const {
    const InstanceRecord& p = at(times, instance);
    if (p.has_pattern()) return p.start + patterns[p.pattern].ended[task];
    if (p.singly()) return times.ended[p.first + step.singly];
    if (!p.in_runs()) return -1;
    const std::int64_t end = times.ended[p.first + step.in_runs];
    return end < 0 ? end : end + step.after;
  }
  /// The times of an exchange: see kExchangeTimes.
  const std::int64_t* exchange(const Times& times, const RunTask& step, std::uint32_t instance) const {
    const InstanceRecord& p = at(times, instance);
    return times.ended.data() + p.first + (p.singly() ? step.singly : step.in_runs);
  }
};

/// What computations of a role take beyond the slots' durations.
struct RoleDelays {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> first;  ///< by instance: of its first task in `ps`, or kNone
  std::vector<std::int64_t> ps;

  std::int64_t of(std::uint32_t instance, std::uint16_t task) const {
    return first[instance] == kNone ? 0 : ps[first[instance] + task];
  }
};

}  // namespace tandem::sim
