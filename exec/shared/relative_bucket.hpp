#pragma once
// Relative position buckets (T5, arXiv 1910.10683, section 2.1, and its authors' code).

#include <cmath>
#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// Each distance below `buckets` / 2 has its own bucket. The others are logarithmic up to 128, in the remaining buckets.
TANDEM_HD inline std::int64_t distance_bucket(std::int64_t distance, std::int64_t buckets) {
  constexpr double kFarthest = 128, kRounding = 1e-9;  // kRounding: logarithms of powers may be slightly below a whole number
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  if (exact == 0 || static_cast<double>(exact) >= kFarthest) return buckets - 1;
  const auto first = static_cast<double>(exact);
  const double share = std::log(static_cast<double>(distance) / first) / std::log(kFarthest / first);
  const auto bucket = exact + static_cast<std::int64_t>(share * static_cast<double>(buckets - exact) + kRounding);
  return bucket < buckets ? bucket : buckets - 1;
}

/// Bucket of `relative` = key position - query position. With causal attention later keys have no buckets. Otherwise they take the
/// upper half of the buckets.
TANDEM_HD inline std::int64_t relative_bucket(std::int64_t relative, std::int64_t buckets, bool causal) {
  if (causal) return distance_bucket(relative < 0 ? -relative : 0, buckets);
  const std::int64_t half = buckets / 2;
  return relative > 0 ? half + distance_bucket(relative, half) : distance_bucket(-relative, half);
}

}  // namespace tandem::exec
