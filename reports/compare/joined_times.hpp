#pragma once
// Times of tasks that two timelines have in common. Private to reports/compare.

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Sums of (ended - started), a mean per rank where it is said.
struct JoinedTime {
  std::string what;
  std::int64_t tasks = 0;  ///< over all ranks
  Duration first, second;
};

struct JoinedTimes {
  std::vector<JoinedTime> kinds, stages, collectives, operations;  ///< per rank; in order of first appearance, stages ascending
  std::int64_t joined = 0, only_first = 0, only_second = 0;        ///< tasks over all ranks
};

/// Task by task: rank by rank, by block, task, layer, micro-batch, chunk and phase. Times are of joined tasks, a mean over the ranks of
/// `second`.
JoinedTimes joined_by_rank(const SavedTimeline& first, const SavedTimeline& second);

/// For plans of different layouts: all tasks of a name, a mean over each timeline's own ranks. `stages`: both have the same stages.
JoinedTimes joined_by_name(const SavedTimeline& first, const SavedTimeline& second, bool stages);

/// What a task is counted under, for every task of a timeline: its kind, its operation, and the collective that it is ("" for none).
struct TaskNames {
  std::string kind, operation, collective;
};
std::vector<TaskNames> task_names(const SavedTimeline& timeline);

}  // namespace tandem
