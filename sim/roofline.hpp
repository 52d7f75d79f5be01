#pragma once
// Costs from facts: the larger of arithmetic and memory traffic, and a fixed time for each kernel.

#include "sim/calibration.hpp"

namespace tandem::sim {

/// Seconds of one computation. Total over Op: an alternative without a rule does not compile. Throws InfeasibleError where
/// the device has no published rate for the compute type, ContractError for communication.
double roofline_seconds(const Op& op, DType compute, const Device& device, const Calibration& calibration);

}  // namespace tandem::sim
