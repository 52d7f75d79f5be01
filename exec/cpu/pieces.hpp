#pragma once
// Sums of squares over parameter pieces. Their bits do not depend on how parameters are cut into pieces.

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "exec/backend/piece_row.hpp"
#include "exec/cpu/exact_sum.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {

inline constexpr std::int64_t kNormBlock = 64;  // elements; changing it changes the last bits of every norm

/// Elements [first, end) of a piece.
struct ElementRange {
  std::int64_t first, end;
};

/// Calls body(first, count) for the blocks of a range. Blocks start at multiples of kNormBlock in the flat buffers.
template <class F>
void each_block(const PieceRow& piece, const ElementRange& of, F body) {
  for (std::int64_t begin = of.first, end = 0; begin < of.end; begin = end) {
    end = std::min(of.end, (piece.flat + begin) / kNormBlock * kNormBlock + kNormBlock - piece.flat);
    body(begin, end - begin);
  }
}

/// Calls body(range) for ranges of whole blocks; the rank's threads share them.
template <class F>
void each_blocks(const Call& call, const PieceRow& piece, F body) {
  const std::int64_t before = piece.flat / kNormBlock, last = (piece.flat + piece.count - 1) / kNormBlock;
  const auto begin = [&](std::int64_t block) {
    return std::clamp((before + block) * kNormBlock - piece.flat, std::int64_t{0}, piece.count);
  };
  call.team().split(last - before + 1, call.team().grain(kNormBlock),
                    [&](std::int64_t first, std::int64_t end) { body(ElementRange{begin(first), begin(end)}); });
}

/// Adds the squares of value(i), i in [first, end), to an exact sum. Each block's sum is rounded first.
template <class Value>
void add_squares(const PieceRow& piece, const ElementRange& of, ExactSum& sum, Value value) {
  each_block(piece, of, [&](std::int64_t first, std::int64_t count) {
    sum.add(lane_sum<double>(count, [&](std::int64_t i) {
      const auto x = static_cast<double>(value(first + i));
      return x * x;
    }));
  });
}

/// As above for the whole piece, on all threads of the rank. The order of additions does not change an exact sum's words.
template <class Value>
void add_squares(const Call& call, const PieceRow& piece, ExactSum& sum, Value value) {
  std::mutex mutex;
  each_blocks(call, piece, [&](const ElementRange& of) {
    ExactSum part;
    add_squares(piece, of, part, value);
    const std::lock_guard guard(mutex);
    sum.add(part);
  });
}

}  // namespace tandem::exec::cpu
