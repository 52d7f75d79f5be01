#include "sim/cost/cuda_only.hpp"

#include <utility>

#include "sim/nccl/rccl.hpp"

namespace tandem::sim {

void require_cuda(const Plan& plan, const Topology& topology, const CommFit& fit) {
  std::vector<Problem> problems;
  const CudaGraphs graphs = plan.training.cuda_graphs;
  const std::string& algo = plan.cluster.override.nccl_algo;
  const std::string device = topology.device().name;
  if (!fit.nccl && graphs != CudaGraphs::none)
    problems.push_back({plan.file, "training.cuda_graphs", std::string(name(graphs)), device + " has no CUDA graphs", "use none"});
  if (!fit.nccl && !algo.empty())
    problems.push_back({plan.file, "cluster.override.nccl_algo", algo, "the library of " + device + " is not NCCL",
                        "leave it out, or use cluster.override.algorithms"});
  if (fit.nccl && is_rccl(*fit.nccl)) {
    const std::string library = "the library of " + device + " is RCCL, whose rings and trees no switch helps";
    if (algo.find("nvls") != std::string::npos)
      problems.push_back({plan.file, "cluster.override.nccl_algo", algo, library, "leave it out"});
    if (topology.network_reduces()) problems.push_back({plan.file, "fabric.reduces", "true", library, "leave it out of the cluster"});
  }
  if (!problems.empty()) throw InfeasibleError(std::move(problems));
}

}  // namespace tandem::sim
