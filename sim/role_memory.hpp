#pragma once
// What a rank of a role needs of its device, and whether that is there.

#include <cstdint>

#include "models/task_graph.hpp"
#include "reports/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Of a rank of `program`, beside whose tensors a device has `runtime`.
RolePrediction role_memory(const Program& program, Bytes runtime, const Device& device);

/// Whether what roles need fits their devices. A host has one arena. Elsewhere what is alive must fit, and where tensors come from an
/// allocator that keeps segments (PyTorch's on a CUDA device) it must find places for all of them (sim/reserved_memory).
class DeviceRoom {
 public:
  /// `graph` and `device` must outlive this; `caching`: there is such an allocator.
  DeviceRoom(const TaskGraph& graph, const Device& device, std::int64_t ranks_per_device, bool caching);
  bool fits(const RolePrediction& role, StageId stage) const;

 private:
  const TaskGraph& graph_;
  const Device& device_;
  std::int64_t sharing_;
  bool caching_;
};

}  // namespace tandem::sim
