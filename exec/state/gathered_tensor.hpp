#pragma once
// A whole parameter, assembled from the ranks' shares.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::exec {

/// A whole parameter, or a tensor of its shape such as its gradient: row-major, in fp64, without vocabulary padding.
struct GatheredTensor {
  std::string name;
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
};

}  // namespace tandem::exec
