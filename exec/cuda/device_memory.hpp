#pragma once
// A rank's device memory.

#include <cstddef>
#include <memory>
#include <mutex>

#include "exec/backend/memory.hpp"
#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// Counts the bytes that a backend has allocated, now and at most so far. Shared, because memory may outlive its backend.
struct AllocatedBytes {
  std::mutex mutex;
  std::int64_t live = 0, peak = 0;
  void add(std::int64_t bytes);
};

/// The stream for copies that the host waits for.
struct Transfers {
  std::mutex mutex;
  Stream stream;
};

/// Allocates memory aligned to 256 bytes; `book` counts it until it is freed. Throws DeviceError if device memory runs out.
std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<Transfers> transfers, std::shared_ptr<AllocatedBytes> book);

/// Pinned host memory, which the device can copy from and to. Throws DeviceError if host memory runs out.
std::unique_ptr<Memory> allocate_pinned(std::size_t bytes);

}  // namespace tandem::exec::cuda
