#pragma once
// An answer as text and as JSON.

#include <string>
#include <vector>

#include "experiments/tandem/planning/answer.hpp"

namespace tandem::planning {

/// A line each for the best plan's tokens, its phases if there are several, days, devices, money, energy, failures, checkpoints and memory. Then other plans,
/// effects of changes, and warnings. The answer must have a best plan.
std::string to_text(const Answer& answer);

/// Labels of plans in a sentence, at most four by name; empty for the only plan, which has no label.
std::string labels_text(std::vector<std::string> labels);

/// The keys of `tandem plan --json` (schema_version 1). SI units in the names, except days, hours, kWh and kW.
std::string to_json(const Answer& answer);

}  // namespace tandem::planning
