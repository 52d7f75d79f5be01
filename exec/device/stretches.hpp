#pragma once
// Pieces of parameters cut into what one block of threads works on.

#include <span>
#include <vector>

#include "exec/device/pieces.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kStretch = 2048;  ///< elements at most: 32 blocks of a norm

/// Ascending.
std::vector<Stretch> stretches_of(std::span<const PieceRow> rows);

/// Elements that the pieces reach in the states.
std::int64_t end_of_states(std::span<const PieceRow> rows);

}  // namespace tandem::exec::device
