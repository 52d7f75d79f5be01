#pragma once
// Sums of squares over pieces of parameters that have the same bits however the parameters are cut into pieces.

#include <algorithm>
#include <cstdint>

#include "exec/backend/piece_row.hpp"
#include "exec/cpu/exact_sum.hpp"
#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {

inline constexpr std::int64_t kNormBlock = 64;  // elements; changing it changes the last bits of every norm

/// body(first, count) for the blocks of a piece; blocks begin at multiples of their size in the flat buffers.
template <class F>
void each_block(const PieceRow& piece, F body) {
  for (std::int64_t begin = 0, end = 0; begin < piece.count; begin = end) {
    end = std::min(piece.count, (piece.flat + begin) / kNormBlock * kNormBlock + kNormBlock - piece.flat);
    body(begin, end - begin);
  }
}

/// Adds the squares of value(0 .. count-1) of a piece to an exact sum, each block rounded first.
template <class Value>
void add_squares(const PieceRow& piece, ExactSum& sum, Value value) {
  each_block(piece, [&](std::int64_t first, std::int64_t count) {
    sum.add(lane_sum<double>(count, [&](std::int64_t i) {
      const auto x = static_cast<double>(value(first + i));
      return x * x;
    }));
  });
}

}  // namespace tandem::exec::cpu
