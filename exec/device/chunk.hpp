#pragma once
// How many blocks a kernel has, and the part of its elements that a block works on.

#include <cstdint>

#include "exec/device/wide.hpp"
#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kChunk = 2048;  ///< elements of a block that works element by element: 16 bytes of bf16 a thread
inline constexpr int kThreads = 256;          ///< of a block, unless its kernel says otherwise

/// Blocks, and bytes of memory that the threads of a block share.
struct Grid {
  std::int64_t blocks = 1;
  std::size_t shared_bytes = 0;
  std::size_t more_bytes = 0;  ///< shared memory that makes the kernel faster; it asks its block what there is
};

/// Threads of a kernel's block.
template <class Kernel>
constexpr int threads_of() {
  if constexpr (requires { Kernel::kBlockThreads; }) return Kernel::kBlockThreads;
  else return kThreads;
}

/// Blocks of a kernel that a processor shall have at a time, so that loads hide each other; its threads' registers follow.
template <class Kernel, class Variant>
constexpr int resident_blocks() {
  if constexpr (requires { Kernel::template kResident<Variant>; }) return Kernel::template kResident<Variant>;
  else return 0;  // as many as there are
}

constexpr std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
constexpr Grid chunks(std::int64_t elements) { return {parts(elements, kChunk)}; }

/// body(i) for the block's part of [0, n).
template <class Block, class F>
TANDEM_HD inline void each_in_chunk(Block& block, std::int64_t n, F body) {
  const std::int64_t first = block.index() * kChunk, rest = n - first;
  block.each(rest < kChunk ? rest : kChunk, [&](std::int64_t i) { body(first + i); });
}

/// body(lanes, i): elements [i, i + lanes.n) of the block's part of [0, n), `kWidth` at a time where they may be, else one by one.
template <int kWidth, class Block, class F>
TANDEM_HD inline void each_wide(Block& block, std::int64_t n, bool may, F body) {
  const std::int64_t first = block.index() * kChunk, rest = n - first, count = rest < kChunk ? rest : kChunk;
  const std::int64_t wide = may ? count / kWidth : 0, single = count - wide * kWidth;
  if (wide > 0) block.each(wide, [&](std::int64_t k) { body(Lanes<kWidth>{}, first + k * kWidth); });
  if (single > 0) block.each(single, [&](std::int64_t k) { body(Lanes<1>{}, first + wide * kWidth + k); });
}

/// Row and column of an element.
struct Cell {
  std::int64_t row, col;
};
TANDEM_HD inline Cell cell_of(std::int64_t i, std::int64_t cols) {
  if ((i | cols) >> 32 == 0) {  // a device divides 32 bits in a fifth of the time
    const auto small = static_cast<std::uint32_t>(i), width = static_cast<std::uint32_t>(cols), row = small / width;
    return {row, small - row * width};
  }
  return {i / cols, i % cols};
}

}  // namespace tandem::exec::device
