#pragma once
// Buckets of relative positions (T5, arXiv 1910.10683, section 2.1, and its authors' code).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/ops/op.hpp"

namespace tandem::exec::cpu {

/// Distances below half of `buckets` have one each; the rest share the other half, evenly in the logarithm up to 128.
inline std::int64_t distance_bucket(std::int64_t distance, std::int64_t buckets) {
  constexpr double kFarthest = 128, kRounding = 1e-9;  // logarithms of powers may miss a whole number by a last place
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  if (exact == 0 || static_cast<double>(exact) >= kFarthest) return buckets - 1;
  const auto first = static_cast<double>(exact);
  const double share = std::log(static_cast<double>(distance) / first) / std::log(kFarthest / first);
  const auto beyond = static_cast<std::int64_t>(share * static_cast<double>(buckets - exact) + kRounding);
  return std::min(buckets - 1, exact + beyond);
}

/// Bucket of `relative`, the key's position less the query's. With causal attention keys behind the query have no buckets,
/// otherwise these take the upper half.
inline std::int64_t relative_bucket(std::int64_t relative, std::int64_t buckets, bool causal) {
  if (causal) return distance_bucket(std::max<std::int64_t>(0, -relative), buckets);
  const std::int64_t half = buckets / 2;
  return relative > 0 ? half + distance_bucket(relative, half) : distance_bucket(-relative, half);
}

/// Buckets of every distance that an attention meets.
class RelativeBuckets {
 public:
  /// `queries`: positions that queries may have. Without buckets empty.
  RelativeBuckets(const AttentionDims& dims, std::int64_t buckets, std::int64_t queries) : queries_(queries) {
    if (buckets == 0) return;
    for (std::int64_t relative = 1 - queries; relative < dims.key_count(); ++relative)
      buckets_.push_back(static_cast<std::int32_t>(relative_bucket(relative, buckets, dims.causal)));
  }
  /// Of the keys 0, 1, ... for a query at `position`.
  const std::int32_t* of(std::int64_t position) const { return buckets_.data() + queries_ - 1 - position; }

 private:
  std::int64_t queries_;
  std::vector<std::int32_t> buckets_;
};

}  // namespace tandem::exec::cpu
