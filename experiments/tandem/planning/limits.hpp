#pragma once
// Limits of time and money that no plan of an answer meets.

#include <string>

#include "experiments/tandem/planning/answer.hpp"

namespace tandem::planning {

/// The limit of --days or --budget that the best plan, and so every plan, misses, with its figure: of one plan both, of several the
/// first. Empty if it meets both. Some plan must fit.
std::string missed_limit(const Answer& answer);

}  // namespace tandem::planning
