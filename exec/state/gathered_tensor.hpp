#pragma once
// A whole parameter, put together from the shares of its ranks.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::exec {

/// One whole (unsharded) parameter without a vocabulary's padding, or one number each of it, in fp64; row-major.
struct GatheredTensor {
  std::string name;
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
};

}  // namespace tandem::exec
