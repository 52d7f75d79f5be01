#pragma once
// Rectangular blocks of whole parameters. What a rank holds and what a checkpoint stores is divided into blocks.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "exec/state/param_layout.hpp"

namespace tandem::exec {

/// Rows [row, row + rows) and columns [col, col + cols) of a whole parameter.
struct Block {
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;

  std::int64_t elements() const { return rows * cols; }
  bool empty() const { return rows <= 0 || cols <= 0; }
};

/// The intersection of two blocks; empty() if they do not overlap.
inline Block meet(const Block& a, const Block& b) {
  const std::int64_t row = std::max(a.row, b.row), col = std::max(a.col, b.col);
  return {row, col, std::min(a.row + a.rows, b.row + b.rows) - row, std::min(a.col + a.cols, b.col + b.cols) - col};
}

/// Splits a block into groups of whole rows, each of at most `most` elements, but at least one row. `most` is positive.
std::vector<Block> parts_of(const Block& block, std::int64_t most);

/// A block in a rank's buffer: its elements are contiguous there, row by row.
struct HeldBlock {
  const Param* param = nullptr;
  Block block;
  std::int64_t at = 0;  ///< its first element in the buffer
};

/// All blocks that a rank holds of buffer `name`: "weights", "gradients" or an optimizer's. Replicas and tied copies are included.
std::vector<HeldBlock> held_blocks(const RankState& rank, std::string_view name);

/// The blocks that this rank contributes to a gathered tensor. All ranks together give each element once; tied copies are left out.
std::vector<HeldBlock> counted_blocks(const RankState& rank, std::string_view name);

}  // namespace tandem::exec
