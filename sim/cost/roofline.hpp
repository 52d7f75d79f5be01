#pragma once
// Costs from facts: the longer of arithmetic and memory traffic, plus a fixed time for each kernel.

#include "models/ops/op.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/product_table.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Seconds of one computation. An operation without a rule does not compile. Throws InfeasibleError if the device has no published
/// rate for the compute type, ContractError for communication. A product in `measured` takes its measured time plus casts to narrow
/// types. On the slowest of many devices the measured time is up to `slowest` times as long, as far as arithmetic
/// bounds it.
double roofline_seconds(const Op& op, DType compute, const Device& device, const Calibration& calibration,
                        const ProductTable* measured = nullptr, double slowest = 1);

}  // namespace tandem::sim
