#pragma once
// Where every byte of a rank's step lies, decided before it runs: both performers read this one book.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/units.hpp"

namespace tandem {

enum class MemoryKind : std::uint8_t { weights, gradients, optimizer, activations, communication, workspace, runtime };
inline constexpr std::size_t kMemoryKinds = 7;
std::string_view name(MemoryKind k);

using BytesByKind = std::array<Bytes, kMemoryKinds>;

/// One tensor's place: alive from the start of instance `first` to the end of instance `last` (inclusive).
struct Allocation {
  std::string_view name;
  MemoryKind kind;
  std::int64_t offset;   ///< bytes into the arena
  Bytes bytes;           ///< rounded up to the alignment
  std::uint32_t first, last;
};

struct MemoryPlan {
  Bytes arena_bytes;          ///< end of the highest allocation: alignment, holes and reuse included
  Bytes live_peak_bytes;      ///< largest sum of live tensors at any task
  BytesByKind live_at_peak{}; ///< split of live_peak_bytes
  Bytes cached_bytes;         ///< of tensors past that a framework's allocator keeps beside the arena until memory runs short
  std::vector<Allocation> allocations; ///< persistent ones first (first = 0, last = end)
};

inline constexpr std::int64_t kArenaAlignment = 256;  ///< bytes; what device allocators and vector units want

/// `bytes` rounded up to the alignment.
constexpr std::int64_t arena_aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace tandem
