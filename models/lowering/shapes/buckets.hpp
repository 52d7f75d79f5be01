#pragma once
// Gradient buckets of the data-parallel reduction: runs of whole regions (head, layers from last to first, embedding)
// in the order in which the backward pass completes them.

#include <cstdint>
#include <vector>

#include "models/base/units.hpp"

namespace tandem::lowering {

/// Regions [first, first + count) of the completion order leave together.
struct Bucket {
  std::int32_t first = 0, count = 0;
  std::int64_t elements = 0;
};

/// Closes a bucket as soon as it holds at least `limit`; `element_bytes` of the reduced type.
std::vector<Bucket> make_buckets(const std::vector<std::int64_t>& region_elements, Bytes limit, Bytes element_bytes);

}  // namespace tandem::lowering
