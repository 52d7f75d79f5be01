#pragma once
// What a step with ZeRO 1 leaves behind in the cache of PyTorch's allocator: tensors of the update that nothing of the passes
// has the size of (c10/cuda/CUDACachingAllocator.cpp: from 10 MiB on a tensor has a segment of its own, which a later one is cut
// from where it fits, and which goes back to the device only when memory runs short).

#include <cstdint>

#include "models/base/units.hpp"

namespace tandem::lowering {

/// Sizes of one rank's update.
struct UpdateTensors {
  std::int64_t parameters = 0;     ///< of the rank's stage
  std::int64_t updated = 0;        ///< of these, what it updates
  std::int64_t bucket = 0;         ///< elements that one collective copies at most
  std::int64_t weight_bytes = 0;   ///< of an element
  bool narrow_gradients = false;   ///< gradients have the weights' 16 bits
};

/// DeepSpeed's: a bucket of gradients, the rank's part of them as one tensor, its fp32 copy, a bucket of gathered weights.
Bytes cached_by_update(const UpdateTensors& u);

}  // namespace tandem::lowering
