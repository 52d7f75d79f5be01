#pragma once
// Pinned memory through which the host's bytes go to the device.

#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// Keeps a copy of what is uploaded until the device has it. For one stream.
class Staging {
 public:
  /// Enqueues a copy; `from` may go when this returns. Throws DeviceError.
  void upload(std::byte* to, std::span<const std::byte> from, cudaStream_t stream);

 private:
  struct Slot {
    Buffer bytes;
    Event gone;  ///< the device has read them
  };
  Slot& free_slot(std::size_t bytes);

  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace tandem::exec::cuda
