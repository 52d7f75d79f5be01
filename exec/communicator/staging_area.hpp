#pragma once
// Host memory for copies to and from a device, for communicators that only access host memory.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tandem::exec {

/// Thread-safe. Copies are done when they return. Throws DeviceError.
class StagingArea {
 public:
  virtual ~StagingArea() = default;
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  virtual void to_host(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual void to_device(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
};

/// For backends in host memory: allocates there and copies with memcpy.
StagingArea& host_staging_area();

}  // namespace tandem::exec
