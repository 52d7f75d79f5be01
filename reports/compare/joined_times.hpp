#pragma once
// Times of tasks that two timelines have in common. Private to reports/compare.

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Sums of (ended - started) over tasks, also over those that only one timeline has.
struct JoinedTime {
  std::string what;
  std::int64_t tasks = 0;  ///< joined, over all ranks
  Duration first, second;
};

struct JoinedTimes {
  std::vector<JoinedTime> kinds, stages, collectives, operations;  ///< per rank; in order of first appearance, stages ascending
  std::int64_t joined = 0, only_first = 0, only_second = 0;        ///< tasks over all ranks
  Duration only_first_time, only_second_time;                      ///< of these tasks, per rank; part of the lines
};

/// Joins task by task: by rank, block, task, layer, micro-batch, chunk and phase. Times are means over the ranks of `second`. A
/// task that only one timeline has takes no time in the other.
JoinedTimes joined_by_rank(const SavedTimeline& first, const SavedTimeline& second);

/// Joins all tasks of a name, for plans with different layouts; means over each timeline's own ranks. `stages`: stages are equal.
JoinedTimes joined_by_name(const SavedTimeline& first, const SavedTimeline& second, bool stages);

/// The names under which a task is counted: its kind, its operation, and its collective ("" for none). Indexed by task of a timeline.
struct TaskNames {
  std::string kind, operation, collective;
};
std::vector<TaskNames> task_names(const SavedTimeline& timeline);

}  // namespace tandem
