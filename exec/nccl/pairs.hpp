#pragma once
// Neighbouring stages that send to each other, parted so that each pair gets a communicator by one split of all ranks.

#include <cstdint>

namespace tandem::exec::nccl {

inline constexpr int kPairClasses = 3;

/// Of the pair of a sending stage and its neighbour on either side, cyclically: no stage is in two pairs of a class and a way.
inline int pair_class(std::int64_t sender, std::int64_t stages) {
  return stages % 2 == 1 && sender == stages - 1 ? 2 : static_cast<int>(sender % 2);
}

/// Who sends to `stage` the way `way`.
inline std::int64_t sender_to(std::int64_t stage, int way, std::int64_t stages) {
  return ((stage - way) % stages + stages) % stages;
}

}  // namespace tandem::exec::nccl
