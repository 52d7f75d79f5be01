#pragma once
// A rank's parameter pieces, cut into ranges for blocks of threads.

#include <span>

#include "exec/backend/piece_row.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kNormBlock = 64, kNormLanes = 16;  ///< as in exec/cpu/pieces and lanes; they fix the norms' bits

/// A part of a piece for one block of threads. It ends at a multiple of 64 elements of the flat buffers, or at the piece's end.
struct PieceRange {
  std::int64_t first = 0, count = 0;  ///< in the piece
  std::int32_t piece = 0;
};

/// A rank's pieces and their ranges, in the device's memory.
struct Pieces {
  const PieceRow* rows = nullptr;
  const PieceRange* ranges = nullptr;
  std::int64_t count = 0;  ///< number of ranges
  std::int64_t end = 0;    ///< end of the pieces in the states, in elements
  std::int64_t parameters = 0;  ///< largest parameter index plus 1
  std::int64_t squares_end = 0;  ///< end of the pieces in the second moments, in elements
  std::span<const PieceRow> on_host{};  ///< the rows, where the host can read them
};

}  // namespace tandem::exec::device
