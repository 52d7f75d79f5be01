#pragma once
// Number of blocks of a kernel, and the part of the elements that each block processes.

#include <cstdint>

#include "exec/device/wide.hpp"
#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kChunk = 2048;  ///< elements per block of an elementwise kernel: 16 bytes of bf16 per thread
inline constexpr int kThreads = 256;          ///< threads per block, unless its kernel defines another number

/// Number of blocks, and bytes of shared memory per block.
struct Grid {
  std::int64_t blocks = 1;
  std::size_t shared_bytes = 0;
  std::size_t more_bytes = 0;  ///< optional shared memory that speeds the kernel up; the kernel asks its block how much it has
};

/// Threads per block of a kernel.
template <class Kernel>
constexpr int threads_of() {
  if constexpr (requires { Kernel::kBlockThreads; }) return Kernel::kBlockThreads;
  else return kThreads;
}

/// Minimum number of resident blocks per multiprocessor, to hide load latency. It limits the registers per thread.
template <class Kernel, class Variant>
constexpr int resident_blocks() {
  if constexpr (requires { Kernel::template kResident<Variant>; }) return Kernel::template kResident<Variant>;
  else return 0;  // no minimum
}

constexpr std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
constexpr Grid chunks(std::int64_t elements) { return {parts(elements, kChunk)}; }

/// Calls body(i) for the block's part of [0, n).
template <class Block, class F>
TANDEM_HD inline void each_in_chunk(Block& block, std::int64_t n, F body) {
  const std::int64_t first = block.index() * kChunk, rest = n - first;
  block.each(rest < kChunk ? rest : kChunk, [&](std::int64_t i) { body(first + i); });
}

/// body(lanes, i): elements [i, i + lanes.n) of the block's part of [0, n), `kWidth` at a time if `may`, else one at a time.
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
  if ((i | cols) >> 32 == 0) {  // a device divides 32-bit integers five times as fast
    const auto small = static_cast<std::uint32_t>(i), width = static_cast<std::uint32_t>(cols), row = small / width;
    return {row, small - row * width};
  }
  return {i / cols, i % cols};
}

}  // namespace tandem::exec::device
