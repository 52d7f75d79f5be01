#pragma once
// Pinned memory for uploads from the host to the device.

#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// Keeps a copy of uploaded bytes until the device has read them. For one stream.
class Staging {
 public:
  /// Enqueues an upload. `from` may be freed when this returns. Throws DeviceError.
  void upload(std::byte* to, std::span<const std::byte> from, cudaStream_t stream);

 private:
  struct Slot {
    Buffer bytes;
    Event gone;  ///< reached when the device has read the bytes
  };
  Slot& free_slot(std::size_t bytes);

  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace tandem::exec::cuda
