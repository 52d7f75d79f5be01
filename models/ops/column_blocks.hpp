#pragma once
// The parts of a matrix that is stored as up to three matrices.

#include <array>
#include <cstdint>

#include "models/ops/layer.hpp"

namespace tandem {

/// Columns of each part of a matrix of `columns` columns; 0: there is no such part.
inline std::array<std::int64_t, 3> widths_of(const ColumnBlocks& blocks, std::int64_t columns) {
  return {blocks.first, blocks.second, columns - blocks.first - blocks.second};
}

}  // namespace tandem
