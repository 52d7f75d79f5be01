#pragma once
// The factor of an RMS norm.

#include <cmath>
#include <cstdint>

#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {

/// 1 / sqrt(mean of squares + epsilon) of `n` numbers.
template <class T>
T inverse_root(const T* x, std::int64_t n, double epsilon) {
  const T squares = lane_sum<T>(n, [=](std::int64_t c) { return x[c] * x[c]; });
  return T{1} / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(epsilon));
}

}  // namespace tandem::exec::cpu
