#pragma once
// A rank's pieces of parameters, and the stretches of them that blocks of threads work on.

#include "exec/backend/piece_row.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kNormBlock = 64, kNormLanes = 16;  ///< as exec/cpu/pieces and lanes have them: the bits of every norm

/// A part of a piece, for one block of threads. It ends at a multiple of 64 elements of the flat buffers, or where its piece ends.
struct Stretch {
  std::int64_t first = 0, count = 0;  ///< of the piece
  std::int32_t piece = 0;
};

/// A rank's pieces and their stretches, in the device's memory.
struct Pieces {
  const PieceRow* rows = nullptr;
  const Stretch* stretches = nullptr;
  std::int64_t count = 0;  ///< of stretches
  std::int64_t end = 0;    ///< elements that the pieces reach in the states
};

}  // namespace tandem::exec::device
