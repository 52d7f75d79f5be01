#pragma once
// Copies and reductions between ranks that share the device.

#include <cuda_runtime_api.h>

#include "exec/communicator/memory_engine.hpp"
#include "exec/communicator/staging_area.hpp"

namespace tandem::exec::cuda {

/// Each calling thread uses its own stream. Buffers must be ready before a call, because it waits for no event.
MemoryEngine& device_engine();

/// Enqueues its calls on one stream. finish() does not wait.
class StreamEngine final : public MemoryEngine {
 public:
  explicit StreamEngine(cudaStream_t stream) : stream_(stream) {}
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fold(const Fold& fold) override;
  void finish() override {}

 private:
  cudaStream_t stream_;
};

/// Its host memory is pinned.
StagingArea& device_staging_area();

}  // namespace tandem::exec::cuda
