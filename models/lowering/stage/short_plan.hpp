#pragma once
// A plan with fewer layers and micro-batches, whose step grows by the same for each that is added.

#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// What a short plan lacks of the plan that it was made from.
struct Growth {
  enum class Of : std::uint8_t {
    layers,        ///< of every chunk that has any: so many as repeat their kinds
    recomputed,    ///< the same, and one more that runs again
    micro_batches  ///< so many as repeat the schedule
  };
  Of of = Of::layers;
  std::int64_t each = 1;   ///< layers of a chunk, or micro-batches, that are added at once
  std::int64_t times = 0;  ///< until the plan is whole
};

struct ShortPlan {
  Plan plan;
  std::vector<Growth> growths;  ///< each at least once; layers before micro-batches

  bool whole() const { return growths.empty(); }
  /// `plan` with `times` more of a growth.
  Plan grown(const Growth& growth, std::int64_t times) const;
};

/// Of `plan`. The higher the level (0 first), the less is left out; a plan that is not longer than that is whole.
ShortPlan shorten(const Plan& plan, int level);

}  // namespace tandem::lowering
