#pragma once
// Host memory between a device and what moves bytes between hosts.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tandem::exec {

/// Any thread may call. Copies are done when they return. Throws DeviceError.
class StagingArea {
 public:
  virtual ~StagingArea() = default;
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  virtual void to_host(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual void to_device(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
};

/// Of a backend whose memory is the host's, which then poses as a device.
StagingArea& host_staging_area();

}  // namespace tandem::exec
