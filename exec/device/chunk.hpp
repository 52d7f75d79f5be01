#pragma once
// How many blocks a kernel has, and the part of its elements that a block works on.

#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kChunk = 1024;  ///< elements of a block that works element by element
inline constexpr int kThreads = 256;          ///< of a block

/// Blocks, and bytes of memory that the threads of a block share.
struct Grid {
  std::int64_t blocks = 1;
  std::size_t shared_bytes = 0;
};

constexpr Grid chunks(std::int64_t elements) { return {(elements + kChunk - 1) / kChunk}; }

/// body(i) for the block's part of [0, n).
template <class Block, class F>
TANDEM_HD inline void each_in_chunk(Block& block, std::int64_t n, F body) {
  const std::int64_t first = block.index() * kChunk, rest = n - first;
  block.each(rest < kChunk ? rest : kChunk, [&](std::int64_t i) { body(first + i); });
}

}  // namespace tandem::exec::device
