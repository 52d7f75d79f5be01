#pragma once
// A rank's memory on the device.

#include <cstddef>
#include <memory>
#include <mutex>

#include "exec/backend/memory.hpp"
#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// Bytes that are handed out now, and at most; shared, since memory may outlive its backend.
struct MemoryBook {
  std::mutex mutex;
  std::int64_t live = 0, peak = 0;
  void add(std::int64_t bytes);
};

/// The stream on which the host's own copies go.
struct Transfers {
  std::mutex mutex;
  Stream stream;
};

/// Aligned to 256 bytes. Throws DeviceError where the device has no room.
std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<Transfers> transfers, std::shared_ptr<MemoryBook> book);

/// Memory of the host that the device copies from and to by itself. Throws DeviceError where the host has no room.
std::unique_ptr<Memory> allocate_pinned(std::size_t bytes);

}  // namespace tandem::exec::cuda
