#pragma once
// Tensors that DeepSpeed's ZeRO 1 allocates around the update and leaves in the cache of
// PyTorch's allocator. No task touches them (c10/cuda/CUDACachingAllocator.cpp: a later tensor is
// cut from a cached block if it fits; blocks return to the device only when memory runs short).

#include <cstdint>
#include <vector>

#include "models/base/units.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem::lowering {

/// Sizes of one rank's update.
struct UpdateTensors {
  std::int64_t parameters = 0;     ///< parameters of the rank's stage
  std::int64_t updated = 0;        ///< parameters that the rank updates
  std::int64_t largest = 0;        ///< elements of the largest parameter tensor
  std::int64_t bucket = 0;         ///< most elements that one collective copies
  std::int64_t weight_bytes = 0;   ///< bytes of a weight
  std::int64_t sum_bytes = 0;      ///< bytes of a gradient element in the sum over data ranks
  bool narrow_gradients = false;   ///< gradients have the weights' 16-bit type
  bool host_waits = false;         ///< the host waits for every launch
};

/// Temporary tensors if gradients have 16 bits: gradient buckets, each with a wide copy if sums are wider;
/// wider copies of one tensor's gradients; the rank's part as one tensor and its fp32 copy; buckets of gathered
/// weights. A collective's buffers stay until the device has run it. Unless the host waits for every launch, it
/// has allocated all buckets by then. Empty for fp32 gradients: `sent_gradients` leaves enough room.
PassingTensors passing_in_update(const UpdateTensors& u);

/// Bytes of DeepSpeed's copy of all fp32 gradients as one tensor in the weights' 16-bit type, which is summed over
/// data ranks. It is alive with the gradients, so it counts for fitting. 0 if gradients have the weights' type.
Bytes sent_gradients(const UpdateTensors& u);

}  // namespace tandem::lowering
