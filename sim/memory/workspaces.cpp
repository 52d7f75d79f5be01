#include "sim/memory/workspaces.hpp"

#include <algorithm>
#include <vector>

#include "models/ops/recurrence_scratch.hpp"
#include "sim/nccl/rccl.hpp"

namespace tandem::sim {

namespace {

/// Eight buffers of 4096 KiB for each of two threads (PyTorch documentation, torch.use_deterministic_algorithms; pytorch/pytorch:
/// aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize, in place of :4096:2:16:8 before Hopper and :4096:8 on it).
constexpr Bytes kDeterministic(2LL * 8 * 4096 * 1024);

/// 0 for operations without scratch memory that is counted.
std::int64_t scratch_of(const Task& task) {
  return std::visit(
      [&](const auto& op) -> std::int64_t {
        if constexpr (requires { scratch_bytes(op, task.dtype); }) return scratch_bytes(op, task.dtype);
        else return 0;
      },
      task.op);
}

std::int64_t most_scratch(const Template& t) {
  std::int64_t most = 0;
  for (const Task& task : t.tasks) most = std::max(most, scratch_of(task));
  return most;
}

}  // namespace

Bytes library_memory(const Plan& plan, const Device& device) {
  const bool set = plan.training.deterministic && device.library_memory > Bytes(0);
  return set ? std::max(device.library_memory, kDeterministic) : device.library_memory;
}

Bytes kernel_scratch(const Plan& plan, const CommFit& fit, const TaskGraph& graph, const Program& program) {
  if (!plan.stack.facts.arena || !fit.nccl || is_rccl(*fit.nccl)) return Bytes(0);
  std::vector<std::int64_t> bytes;
  for (const Template& t : graph.templates) bytes.push_back(most_scratch(t));
  std::int64_t most = 0;
  if (std::all_of(bytes.begin(), bytes.end(), [](std::int64_t n) { return n == 0; })) return Bytes(0);
  for (const Instance& i : program.instances) most = std::max(most, bytes[i.tmpl.index()]);
  return Bytes(most);
}

}  // namespace tandem::sim
