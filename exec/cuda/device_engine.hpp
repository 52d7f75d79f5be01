#pragma once
// Copies and folds between ranks that share the device.

#include <cuda_runtime_api.h>

#include "exec/communicator/memory_engine.hpp"
#include "exec/communicator/staging_area.hpp"

namespace tandem::exec::cuda {

/// Every thread that calls has a stream of its own. Buffers must be ready before a call: no event is waited for.
MemoryEngine& device_engine();

/// On a stream, behind what is issued there; finish() returns at once.
class StreamEngine final : public MemoryEngine {
 public:
  explicit StreamEngine(cudaStream_t stream) : stream_(stream) {}
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;
  void fold(const Fold& fold) override;
  void finish() override {}

 private:
  cudaStream_t stream_;
};

/// Pinned.
StagingArea& device_staging_area();

}  // namespace tandem::exec::cuda
