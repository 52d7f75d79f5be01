#pragma once
// What a stack does with the buckets of gradients that data ranks reduce.

namespace tandem {

struct Plan;

struct GradientBuckets {
  bool copies = false;   ///< gradients are copied into buckets, and both are kept
  bool aligned = false;  ///< stage s reduces a chunk s backward passes after the chunk's last one; so all stages do at the same time
};

/// Those of the plan's stack at its date. Only whole gradients of several data ranks have copies, and only interleaved stages that
/// reduce beside passes are aligned.
GradientBuckets gradient_buckets(const Plan& plan);

}  // namespace tandem
