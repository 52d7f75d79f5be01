#pragma once
// Tasks that a device's host launches as one CUDA graph. Only the first task of a graph costs the host time: the launch.

#include <cstdint>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

/// Which parts of a step are captured, and the number of host operations per graph launch.
struct Capture {
  CudaGraphs of = CudaGraphs::none;
  std::int64_t launch = 1;
  bool experts_apart = false;   ///< from dispatch to combine nothing is captured, because the host reads the experts' row counts
  bool gathers_follow = false;  ///< gathers of weights follow the update, not the next forward pass
};

/// Sets `Task::host_operations` of captured tasks. Layers: one graph per block pass or, with experts apart, one
/// before and one after these. Iteration: one graph of everything but the optimizer (and gathers that follow it).
/// The first captured task of each stage, in a template of its own, launches it; the host waits for no receive.
void capture_graphs(TaskGraph& graph, const Capture& capture);

}  // namespace tandem::lowering
