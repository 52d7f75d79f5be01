#pragma once
// The point of a run at which the learning rate stops decaying.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// What a run has behind it, perhaps in other batches and lengths than the plan's.
struct Consumed {
  std::int64_t steps = 0, samples = 0, tokens = 0;
};

/// End of the decay for a run of `steps` optimizer steps in all, in the unit of the plan's schedule: steps, samples or tokens. The
/// steps after `behind` are the plan's.
std::int64_t decay_end(const Plan& plan, std::int64_t steps, const Consumed& behind);
/// The end that the plan names, or else the end for all its steps.
std::int64_t decay_end(const Plan& plan, const Consumed& behind);

}  // namespace tandem
