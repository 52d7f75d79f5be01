#pragma once
// Where the plans of two timelines differ, and what of it matters to a comparison.

#include <string>
#include <vector>

#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// One field that two plans do not have in common.
struct PlanDifference {
  std::string field;          ///< "parallel.tensor"
  std::string first, second;  ///< values as JSON, shortened; empty where a plan lacks the field
};

/// Fields that decide a step's tasks and their times, ascending: model, parallel, training, the stack, the kind and number of devices.
/// Names, notes and how long a run and its decay are do not.
std::vector<PlanDifference> plan_differences(const SavedTimeline& first, const SavedTimeline& second);

/// Whether the plan of another such field is another work, which no step time can be compared with: model, batch, sequence.
bool changes_work(const PlanDifference& difference);

/// Whether every rank has the same place and the same micro-batches in both plans, so that tasks join rank by rank.
bool same_places(const std::vector<PlanDifference>& differences);

/// Whether both plans have the same stages.
bool same_stages(const std::vector<PlanDifference>& differences);

/// The command that makes a simulated timeline under the stack of the other one; empty where both have one stack.
std::string twin_text(const SavedTimeline& first, const SavedTimeline& second);

}  // namespace tandem
