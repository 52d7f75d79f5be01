#pragma once
// The simulated times of a role's tasks.

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
  static constexpr PatternId kInRuns = UINT32_MAX - 1;  ///< it was simulated run by run
  static constexpr PatternId kAhead = UINT32_MAX - 2;   ///< no task of it has been simulated yet
  static constexpr PatternId kDelayed = UINT32_MAX - 3;  ///< likewise, and some of its computations take longer (RoleDelays)
  std::int64_t start = 0;      ///< ps; when its pattern begins
  PatternId pattern = kAhead;
  std::uint32_t first = 0;  ///< index of its times in Times::ended, if it has no pattern

  bool singly() const { return pattern == kSingly; }
  bool in_runs() const { return pattern == kInRuns; }
  bool has_pattern() const { return pattern < kDelayed; }
};

/// Times of all roles, in ps from the start of the step; -1: not known. Times that different roles need at once lie together in
/// memory.
struct Times {
  template <class T>
  using Many = std::vector<T, LargePages<T>>;
  Many<InstanceRecord> instances;  ///< by lane program, instance, and role of the lane program
  Many<std::int64_t> ended;        ///< ends, of instances without a pattern in the order they began; layout: RunTask
  Many<std::int64_t> issued;  ///< issue times at the same indices; only if the host computes itself
};

/// From the task at `position` of a role on, the host issues a lane's tasks `ps` later than without waiting.
struct HostLate {
  std::uint32_t position;
  std::int64_t ps;  ///< delay by the host's waits
};

/// The times of one role. Picoseconds from the start of the step.
struct Record {
  std::size_t first_instance = 0, roles = 1;  ///< index of its first in Times::instances; distance to the next
  std::array<std::vector<HostLate>, kLanes> late;  ///< by lane, ascending; empty if its host never waits
  Duration end;                        ///< end of the role's last task

  /// Picoseconds by which the host issues the task at `position` of a lane later than if it never waited.
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
  /// End of a task in ps; -1: not known. `step`: the task's entry in the run table.
  std::int64_t ended_of(const Times& times, const Patterns& patterns, const RunTask& step, std::uint32_t instance,
                        std::uint16_t task) const {
    const InstanceRecord& p = at(times, instance);
    if (p.has_pattern()) return p.start + patterns[p.pattern].ended[task];
    if (p.singly()) return times.ended[p.first + step.singly];
    if (!p.in_runs()) return -1;
    const std::int64_t end = times.ended[p.first + step.in_runs];
    return end < 0 ? end : end + step.after;
  }
  /// The kExchangeTimes times of an exchange.
  const std::int64_t* exchange(const Times& times, const RunTask& step, std::uint32_t instance) const {
    const InstanceRecord& p = at(times, instance);
    return times.ended.data() + p.first + (p.singly() ? step.singly : step.in_runs);
  }
};

/// Extra time of a role's computations beyond the slots' durations.
struct RoleDelays {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> first;  ///< by instance: index of its first task in `ps`, or kNone
  std::vector<std::int64_t> ps;

  std::int64_t of(std::uint32_t instance, std::uint16_t task) const {
    return first[instance] == kNone ? 0 : ps[first[instance] + task];
  }
};

}  // namespace tandem::sim
