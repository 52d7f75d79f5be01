#pragma once
// Costs from facts: the larger of arithmetic and memory traffic, and a fixed time for each kernel.

#include "models/ops/op.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/product_table.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Seconds of one computation. Total over Op: an alternative without a rule does not compile. Throws InfeasibleError where
/// the device has no published rate for the compute type, ContractError for communication. A product that `measured` has takes
/// the time that it has there, on the slowest of many devices `slowest` times as long where its arithmetic bounds it, and casts of
/// narrow types beside it.
double roofline_seconds(const Op& op, DType compute, const Device& device, const Calibration& calibration,
                        const ProductTable* measured = nullptr, double slowest = 1);

}  // namespace tandem::sim
