#pragma once
// How much of a step's matrix products a measured table knows.

#include <optional>

#include "reports/prediction/product_coverage.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Over the tasks of all ranks, each as long as it takes alone. Nothing where the device has no table of products.
std::optional<ProductCoverage> product_coverage(const Setup& setup);

}  // namespace tandem::sim
