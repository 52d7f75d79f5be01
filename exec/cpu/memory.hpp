#pragma once
// Aligned host memory with a live and a peak count.

#include <cstdint>
#include <memory>

#include "exec/backend/memory.hpp"

namespace tandem::exec::cpu {

/// Bytes a backend has handed out; outlives it while any of its memory lives.
struct MemoryBook {
  std::int64_t live = 0, peak = 0;
};

/// Uninitialised memory aligned to kArenaAlignment, entered in `book` until it is freed. Throws DeviceError.
std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<MemoryBook> book);

}  // namespace tandem::exec::cpu
