#pragma once
// Gathered tensors of two runs, laid beside each other.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/run/run.hpp"
#include "tests/catch.hpp"

namespace tandem::tests {

using Tensors = std::vector<exec::GatheredTensor>;

/// Largest difference relative to the tensor's largest value, or to 1e-3 if that is larger.
inline double worst(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    double difference = 0, scale = 1e-3;
    for (std::size_t i = 0; i < a[t].values.size(); ++i) {
      difference = std::max(difference, std::abs(a[t].values[i] - b[t].values[i]));
      scale = std::max(scale, std::abs(a[t].values[i]));
    }
    most = std::max(most, difference / scale);
  }
  return most;
}

}  // namespace tandem::tests
