#include "models/lowering/shapes/buckets.hpp"

namespace tandem::lowering {

std::vector<Bucket> make_buckets(const std::vector<std::int64_t>& region_elements, Bytes limit, Bytes element_bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (std::size_t r = 0; r < region_elements.size(); ++r) {
    ++open.count;
    open.elements += region_elements[r];
    if (element_bytes * open.elements < limit) continue;
    buckets.push_back(open);
    open = {static_cast<std::int32_t>(r + 1), 0, 0};
  }
  if (open.count > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace tandem::lowering
