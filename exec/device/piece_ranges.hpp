#pragma once
// Cuts parameter pieces into ranges, each for one block of threads.

#include <span>
#include <vector>

#include "exec/device/pieces.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kRangeElements = 2048;  ///< largest number of elements: 32 blocks of a norm

/// The ranges, ascending.
std::vector<PieceRange> piece_ranges(std::span<const PieceRow> rows);

/// End of the pieces in the states, in elements.
std::int64_t end_of_states(std::span<const PieceRow> rows);

/// End of the pieces in the second moments, which Muon's parameters lack, in elements.
std::int64_t end_of_squares(std::span<const PieceRow> rows);

/// Largest parameter index plus 1.
std::int64_t end_of_parameters(std::span<const PieceRow> rows);

}  // namespace tandem::exec::device
