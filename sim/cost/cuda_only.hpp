#pragma once
// Refuses what only NVIDIA's GPUs have.

#include "models/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Throws InfeasibleError if the plan has CUDA graphs or chooses NCCL's algorithms, but the device's library is neither NCCL nor
/// RCCL (`CommFit::nccl`), or if switches reduce where it is RCCL, which has rings and trees alone.
void require_cuda(const Plan& plan, const Topology& topology, const CommFit& fit);

}  // namespace tandem::sim
