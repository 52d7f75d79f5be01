#pragma once
// `tandem plan --search`: a search of layouts for each combination of the options' values.

#include <string>
#include <vector>

#include "experiments/tandem/planning/answer.hpp"

namespace tandem::program {

/// Which layouts are searched.
struct LayoutOptions {
  std::vector<std::string> axes;  ///< see --axis
  bool any_stack = false;         ///< also those that the stack cannot run
};

/// What the searches have found.
struct FoundPlans {
  /// Of each combination the fastest layout that fits each phase; else its phases end with a refusal.
  std::vector<planning::Assessments> trainings;
  std::vector<std::string> told;            ///< on values that were chosen, and on searches that did not end; a sentence each
  bool interrupted = false;                 ///< some combinations are missing
};

/// Searches the fastest layout of each combination, as `tandem search` does, and simulates it. An interruption ends it early.
/// Throws ConfigError for bad input, also for what answer_of() would refuse; InfeasibleError for a model that is no plan's.
FoundPlans search_layouts(const planning::Request& request, const planning::Facts& facts, const LayoutOptions& layouts);

}  // namespace tandem::program
