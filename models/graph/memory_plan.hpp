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

/// On which of its streams a framework allocates a tensor. PyTorch's allocator hands bytes on only inside a stream
/// (pytorch/pytorch: c10/cuda/CUDACachingAllocator.cpp, get_free_block takes blocks of the request's stream), so it reserves what
/// each needs at most.
enum class Pool : std::uint8_t { computation, gathers, reductions };
inline constexpr std::size_t kPools = 3;

/// One tensor's place: alive from the start of instance `first` to the end of instance `last` (inclusive).
struct Allocation {
  std::string_view name;
  MemoryKind kind;
  std::int64_t offset;   ///< bytes into the arena
  Bytes bytes;           ///< rounded up to the alignment; none of what only the arena has (ProgramBuilder::persistent_uncounted)
  std::uint32_t first, last;
  Pool pool = Pool::computation;
};

/// A temporary of a framework's optimizer step that no task of the graph has. It is not in the arena; PyTorch's allocator serves it from its
/// cache (models/lowering/stage/cached_tensors).
struct PassingTensor {
  Bytes bytes;
  std::int32_t comes = 0, goes = 0;  ///< first and last time of life, inclusive, counted over these temporaries alone, after all passes
  bool let_go = false;               ///< from the next one on only a stream's recordStream holds it: freed sooner if the host waits for the device
};

/// All of them.
struct PassingTensors {
  std::vector<PassingTensor> tensors;  ///< by `comes`
  std::int32_t gradients_go = 0;       ///< time, counted likewise, at which the passes' gradients are freed
};

struct MemoryPlan {
  Bytes arena_bytes;          ///< end of the highest allocation: alignment, holes and reuse included
  Bytes live_peak_bytes;      ///< largest sum of live tensors at any task
  BytesByKind live_at_peak{}; ///< split of live_peak_bytes
  Bytes cached_bytes;         ///< freed bytes that the framework's allocator keeps in its cache beside the arena until memory runs short
  Bytes pooled_bytes;         ///< part of cached_bytes: sum of each stream's peak above the joint peak, as streams share no bytes
  PassingTensors passing;     ///< where there are any, gradients come and go with the step
  bool expandable_segments = false;    ///< whether the framework's allocator maps more memory behind what it has
  std::vector<Allocation> allocations; ///< persistent ones first (first = 0, or where a framework makes them; last = end)
};

inline constexpr std::int64_t kArenaAlignment = 256;  ///< bytes; what device allocators and vector units want

/// `bytes` rounded up to the alignment.
constexpr std::int64_t arena_aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace tandem
