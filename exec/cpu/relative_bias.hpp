#pragma once
// Relative position buckets of an attention.

#include <cstdint>
#include <vector>

#include "exec/shared/relative_bucket.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec::cpu {

/// The bucket of every distance in an attention.
class RelativeBuckets {
 public:
  /// `queries`: number of positions that queries may have. If `buckets` is 0, this is empty.
  RelativeBuckets(const AttentionDims& dims, std::int64_t buckets, std::int64_t queries) : queries_(queries) {
    if (buckets == 0) return;
    for (std::int64_t relative = 1 - queries; relative < dims.key_count(); ++relative)
      buckets_.push_back(static_cast<std::int32_t>(relative_bucket(relative, buckets, dims.causal)));
  }
  /// The buckets of keys 0, 1, ... for a query at `position`.
  const std::int32_t* of(std::int64_t position) const { return buckets_.data() + queries_ - 1 - position; }

 private:
  std::int64_t queries_;
  std::vector<std::int32_t> buckets_;
};

}  // namespace tandem::exec::cpu
