#pragma once
// What a plan may ask of NVIDIA's GPUs alone.

#include "models/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Throws InfeasibleError where the plan has CUDA graphs or a choice of NCCL's algorithms and the device's library is not NCCL
/// (`CommFit::nccl`): there is nothing to capture or to choose there.
void require_cuda(const Plan& plan, const Device& device, const CommFit& fit);

}  // namespace tandem::sim
