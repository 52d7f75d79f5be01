#pragma once
// Soft caps (Gemma 2, arXiv 2408.00118 section 2): large values approach a cap smoothly.

#include <cmath>

#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// y = cap * tanh(x / cap); slope: its derivative, from y.
template <class T>
struct SoftCapOf {
  T cap;

  TANDEM_HD T value(T x) const { return cap * std::tanh(x / cap); }
  TANDEM_HD T slope(T y) const {
    const T share = y / cap;
    return (T{1} - share) * (T{1} + share);
  }
};

}  // namespace tandem::exec
