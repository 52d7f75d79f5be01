#pragma once
// Rectangles of whole parameters: what a rank holds, and what a checkpoint keeps, falls into such blocks.

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

/// What lies in both; empty() where nothing does.
inline Block meet(const Block& a, const Block& b) {
  const std::int64_t row = std::max(a.row, b.row), col = std::max(a.col, b.col);
  return {row, col, std::min(a.row + a.rows, b.row + b.rows) - row, std::min(a.col + a.cols, b.col + b.cols) - col};
}

/// The block in parts of whole rows, each of at most `most` elements, but at least one row. `most` is positive.
std::vector<Block> parts_of(const Block& block, std::int64_t most);

/// A block as a rank holds it: its elements follow each other, row by row.
struct HeldBlock {
  const Param* param = nullptr;
  Block block;
  std::int64_t at = 0;  ///< where it begins in the buffer, in elements
};

/// Everything that a rank has of the buffer `name` ("weights", "gradients" or an optimizer's): copies of others' too.
std::vector<HeldBlock> held_blocks(const RankState& rank, std::string_view name);

/// What this rank alone of the whole world is to give: together each element once. Tied copies (not in the norm) are left out.
std::vector<HeldBlock> counted_blocks(const RankState& rank, std::string_view name);

}  // namespace tandem::exec
