#pragma once
// The share of a step's matrix products that a measured table covers.

#include <optional>

#include "reports/prediction/product_coverage.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Weighs the tasks of all ranks by the time that each takes alone. Nothing if the device has no table of products.
std::optional<ProductCoverage> product_coverage(const Setup& setup);

}  // namespace tandem::sim
