#pragma once
// Refuses plan fields that only NVIDIA's GPUs have.

#include "models/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Throws InfeasibleError if the plan has CUDA graphs or chooses NCCL's algorithms, but the device's library is not NCCL
/// (`CommFit::nccl`): such a device has neither.
void require_cuda(const Plan& plan, const Device& device, const CommFit& fit);

}  // namespace tandem::sim
