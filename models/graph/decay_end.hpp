#pragma once
// The point of a run at which the learning rate stops decaying.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// End of the decay for a run of `steps` optimizer steps, in the unit of the plan's schedule: steps, samples or tokens.
std::int64_t decay_end(const Plan& plan, std::int64_t steps);
/// The end that the plan names, or else the end for all its steps.
std::int64_t decay_end(const Plan& plan);

}  // namespace tandem
