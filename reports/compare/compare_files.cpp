#include "models/base/error.hpp"
#include "reports/compare/compare.hpp"

namespace tandem {

namespace {

/// Throws ConfigError if an executed timeline is given before a simulated one.
void require_order(const SavedTimeline& first, const SavedTimeline& second, const std::string& path) {
  if (first.performer != Performer::executed || second.performer != Performer::simulated) return;
  throw ConfigError(Problem{path, "performer", "executed", "the second timeline is a simulated one",
                            "give the simulated timeline first, the executed one second"});
}

/// How to make two plans comparable. A step of a batch ramp-up equals one of a plan with that batch and no ramp-up.
std::string remedy(const PlanDifference& d, const std::vector<PlanDifference>& all) {
  if (!d.field.starts_with("training.batch_rampup")) return "compare timelines of one model, batch and sequence length";
  for (const PlanDifference& other : all)
    if (other.field == "training.global_batch_size")
      return "the step that was kept has a batch of " + other.second +
             ": keep one from after the ramp-up (train --timeline-step), or simulate the plan with that batch and no ramp-up";
  return "compare a step from after the ramp-up (train --timeline-step)";
}

void require_same_work(const SavedTimeline& first, const SavedTimeline& second, const std::string& path) {
  const std::vector<PlanDifference> all = plan_differences(first, second);
  for (const PlanDifference& d : all)
    if (changes_work(d))
      throw ConfigError(Problem{path, d.field, d.second, "the first timeline's plan has " + (d.first.empty() ? "none" : d.first), remedy(d, all)});
}

}  // namespace

void require_comparable(const SavedTimeline& first, const SavedTimeline& second, const std::string& first_path,
                        const std::string& second_path) {
  require_order(first, second, first_path);
  require_same_work(first, second, second_path);
}

Comparison compare(const std::string& first_path, const std::string& second_path) {
  const SavedTimeline first = read_timeline(first_path);
  const SavedTimeline second = read_timeline(second_path);
  require_comparable(first, second, first_path, second_path);
  return compare(first, second);
}

}  // namespace tandem
