#pragma once
// Differences between the plans of two timelines that matter to a comparison.

#include <string>
#include <vector>

#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// One field that differs between two plans.
struct PlanDifference {
  std::string field;          ///< "parallel.tensor"
  std::string first, second;  ///< values as JSON, shortened; empty if a plan lacks the field
};

/// The differing fields that decide a step's tasks and times, ascending: model, parallel, training, the stack, the kind and number
/// of devices. Names, notes, and the lengths of a run and its decay are left out.
std::vector<PlanDifference> plan_differences(const SavedTimeline& first, const SavedTimeline& second);

/// Whether a difference makes the work of a step another one, so that step times cannot be compared: model, batch, sequence.
bool changes_work(const PlanDifference& difference);

/// Whether every rank has the same coordinates and micro-batches in both plans, so that tasks can be joined rank by rank.
bool same_places(const std::vector<PlanDifference>& differences);

/// Whether both plans have the same stages.
bool same_stages(const std::vector<PlanDifference>& differences);

/// The command that simulates a timeline under the other one's stack; empty if the stacks are equal.
std::string twin_text(const SavedTimeline& first, const SavedTimeline& second);

}  // namespace tandem
