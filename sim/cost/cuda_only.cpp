#include "sim/cost/cuda_only.hpp"

#include <utility>

namespace tandem::sim {

void require_cuda(const Plan& plan, const Device& device, const CommFit& fit) {
  if (fit.nccl) return;
  std::vector<Problem> problems;
  const CudaGraphs graphs = plan.training.cuda_graphs;
  const std::string& algo = plan.cluster.override.nccl_algo;
  if (graphs != CudaGraphs::none)
    problems.push_back({plan.file, "training.cuda_graphs", std::string(name(graphs)), device.name + " has no CUDA graphs",
                        "use none"});
  if (!algo.empty())
    problems.push_back({plan.file, "cluster.override.nccl_algo", algo, "the library of " + device.name + " is not NCCL",
                        "leave it out, or use cluster.override.algorithms"});
  if (!problems.empty()) throw InfeasibleError(std::move(problems));
}

}  // namespace tandem::sim
