#pragma once
// Aligned host memory; counts live and peak bytes.

#include <cstdint>
#include <memory>

#include "exec/backend/memory.hpp"

namespace tandem::exec::cpu {

/// Counts the bytes that a backend has allocated, now and at most so far. Shared, because memory may outlive its backend.
struct AllocatedBytes {
  std::int64_t live = 0, peak = 0;
};

/// Uninitialised memory aligned to kArenaAlignment. `book` counts it until it is freed. Throws DeviceError.
std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<AllocatedBytes> book);

}  // namespace tandem::exec::cpu
