#pragma once
// What a step with ZeRO 1 holds around the update and leaves behind in the cache of PyTorch's allocator: tensors that no task has
// (c10/cuda/CUDACachingAllocator.cpp: a later one is cut from what an earlier one has left where it fits, and that goes back to the
// device only when memory runs short).

#include <cstdint>
#include <vector>

#include "models/base/units.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem::lowering {

/// Sizes of one rank's update.
struct UpdateTensors {
  std::int64_t parameters = 0;     ///< of the rank's stage
  std::int64_t updated = 0;        ///< of these, what it updates
  std::int64_t largest = 0;        ///< elements of the largest tensor of parameters
  std::int64_t bucket = 0;         ///< elements that one collective copies at most
  std::int64_t weight_bytes = 0;   ///< of an element
  std::int64_t sum_bytes = 0;      ///< of an element that is summed over data ranks
  bool narrow_gradients = false;   ///< gradients have the weights' 16 bits
  bool host_waits = false;         ///< for every launch
};

/// Gradients of 16 bits: buckets of them, with a wide copy of each where sums are wider; wider copies of one tensor's; the rank's part as
/// one tensor and its fp32 copy; buckets of gathered weights. What a collective has read or written stays until the device has done it,
/// and the host, unless it waits for every launch, has made all buckets by then. Nothing where gradients are fp32: what is sent of them
/// (`sent_gradients`) leaves room for all.
PassingTensors passing_in_update(const UpdateTensors& u);

/// DeepSpeed's with fp32 gradients of 16-bit weights: all of them as one tensor in the weights' type, to be summed over data ranks.
/// Alive while they are, so it counts against fitting. Nothing where gradients have the weights' type.
Bytes sent_gradients(const UpdateTensors& u);

}  // namespace tandem::lowering
