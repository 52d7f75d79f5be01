#pragma once
// A note if a device multiplies no faster in a type of 8 or 4 bits.

#include <string>

#include "models/base/dtype.hpp"
#include "topology/device.hpp"

namespace tandem::sim {

/// Says that products in `compute`, a type of fewer than 16 bits, have no higher peak rate than in bf16. Empty if they have, or if a
/// rate is not known.
std::string narrow_rate_note(const Device& device, DType compute);

}  // namespace tandem::sim
