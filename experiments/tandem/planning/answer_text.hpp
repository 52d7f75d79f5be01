#pragma once
// An answer for people, and as JSON.

#include <string>

#include "experiments/tandem/planning/answer.hpp"

namespace tandem::planning {

/// One line each for tokens, days, devices, money, energy, failures, checkpoints and memory of the best plan; then other plans, what
/// changes do, and warnings. The answer has a best plan.
std::string to_text(const Answer& answer);

/// The keys of `tandem plan --json` (schema_version 1, SI units in the names but days, hours, kWh and kW).
std::string to_json(const Answer& answer);

}  // namespace tandem::planning
