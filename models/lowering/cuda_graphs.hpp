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
  bool experts_apart = false;   ///< the host reads how many rows experts get: from dispatch to combination nothing is captured
  bool gathers_follow = false;  ///< ZeRO's gathers are the update's, not the next forward pass'
};

/// Sets `Task::host_operations` of captured tasks. Layers: of every block's passes, of one with experts apart what is before and
/// behind these, a graph each. Iteration: all but the optimizer (and gathers that follow it), one graph, whose launch the first
/// task of each stage has, in a template of its own; its host waits for nothing that is received.
void capture_graphs(TaskGraph& graph, const Capture& capture);

}  // namespace tandem::lowering
