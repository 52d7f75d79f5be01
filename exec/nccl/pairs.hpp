#pragma once
// Divides pairs of neighbouring stages into classes, so that one split of all ranks makes the communicators of a whole class.

#include <cstdint>

namespace tandem::exec::nccl {

inline constexpr int kPairClasses = 3;

/// Class of the pair (sender, its neighbour), stages being cyclic. Within one class and way no stage is in two pairs.
inline int pair_class(std::int64_t sender, std::int64_t stages) {
  return stages % 2 == 1 && sender == stages - 1 ? 2 : static_cast<int>(sender % 2);
}

/// The stage that sends to `stage` in direction `way`.
inline std::int64_t sender_to(std::int64_t stage, int way, std::int64_t stages) {
  return ((stage - way) % stages + stages) % stages;
}

}  // namespace tandem::exec::nccl
