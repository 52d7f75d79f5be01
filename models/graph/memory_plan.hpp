#pragma once
// Offset and lifetime of every tensor in a rank's step, fixed before it runs. Simulator and runtime both use this plan.

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

/// The stream on which a framework allocates a tensor. PyTorch's allocator reuses freed bytes
/// only on the same stream (pytorch/pytorch: c10/cuda/CUDACachingAllocator.cpp, get_free_block
/// takes blocks of the request's stream). So it reserves the peak of each stream.
enum class Pool : std::uint8_t { computation, gathers, reductions };
inline constexpr std::size_t kPools = 3;

/// One tensor's place: alive from the start of instance `first` to the end of instance `last` (inclusive).
struct Allocation {
  std::string_view name;
  MemoryKind kind;
  std::int64_t offset;   ///< bytes into the arena
  Bytes bytes;           ///< rounded up to the alignment; 0 for ProgramBuilder::persistent_uncounted, which only the arena has
  std::uint32_t first, last;
  Pool pool = Pool::computation;
};

/// A temporary tensor of a framework's optimizer step that no task of the graph touches. It is not in
/// the arena: PyTorch's allocator serves it from its cache (models/lowering/stage/cached_tensors).
struct PassingTensor {
  Bytes bytes;
  std::int32_t comes = 0, goes = 0;  ///< first and last time alive, inclusive; times count these tensors only, after all passes
  bool let_go = false;               ///< then only recordStream holds it; an allocator short of memory frees it earlier
};

/// All temporary tensors of the optimizer step.
struct PassingTensors {
  std::vector<PassingTensor> tensors;  ///< ascending `comes`
  std::int32_t gradients_go = 0;       ///< time, on the same count, at which the gradients of the backward passes are freed
};

struct MemoryPlan {
  Bytes arena_bytes;          ///< end of the highest allocation: alignment, holes and reuse included
  Bytes live_peak_bytes;      ///< largest sum of live tensors at any task
  BytesByKind live_at_peak{}; ///< split of live_peak_bytes
  Bytes cached_bytes;         ///< freed bytes that the framework's allocator caches beside the arena until memory runs short
  Bytes pooled_bytes;         ///< part of cached_bytes: sum of each stream's peak above the joint peak, as streams share no bytes
  PassingTensors passing;     ///< if not empty, gradients are allocated and freed every step
  bool expandable_segments = false;    ///< the framework's allocator can extend its segments
  std::vector<Allocation> allocations; ///< persistent ones first; these live to the end, most from the start
};

inline constexpr std::int64_t kArenaAlignment = 256;  ///< bytes; suits device allocators and vector units

/// `bytes` rounded up to the alignment.
constexpr std::int64_t arena_aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace tandem
