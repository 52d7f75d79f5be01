#pragma once
// A plan with fewer layers and micro-batches. Each one added grows its step by a constant amount.

#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// Layers or micro-batches that a short plan omits.
struct Growth {
  enum class Of : std::uint8_t {
    layers,        ///< in every chunk with layers: as many as repeat their kinds
    recomputed,    ///< likewise, and one more layer with recomputation
    micro_batches  ///< as many as repeat the schedule
  };
  Of of = Of::layers;
  std::int64_t each = 1;   ///< layers of a chunk, or micro-batches, per increment
  std::int64_t times = 0;  ///< increments that restore the full plan
};

struct ShortPlan {
  Plan plan;
  std::vector<Growth> growths;  ///< each `times` >= 1; layers before micro-batches

  bool whole() const { return growths.empty(); }
  /// `plan` with `times` increments of `growth`.
  Plan grown(const Growth& growth, std::int64_t times) const;
};

/// Shortens `plan`. A higher level (first: 0) omits less. A plan that is not longer than the short form stays whole.
ShortPlan shorten(const Plan& plan, int level);

}  // namespace tandem::lowering
