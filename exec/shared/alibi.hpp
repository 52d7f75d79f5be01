#pragma once
// ALiBi: attention biases linear in the distance.

#include <cmath>
#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// The slope of a head (Press et al., arXiv 2108.12409, section 3). A power of two of heads has geometric slopes. The other heads
/// take every other slope of the next power of two, as its authors' code does.
TANDEM_HD inline double alibi_slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (head < power) return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
  return std::exp2(-4.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(power));
}

}  // namespace tandem::exec
