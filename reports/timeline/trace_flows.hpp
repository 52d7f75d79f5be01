#pragma once
// Finds the receive of every send: the arrows of a trace.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

struct TraceFlow {
  std::int64_t id;
  std::int32_t from_rank, to_rank;   ///< first ranks of the two lanes
  Duration sent, received;           ///< inside the two tasks' slices: the send's start, the receive's middle
};

/// Pairs the k-th send of a lane to a neighbour stage with the k-th receive there from it. The receiving lane differs from the
/// sender only in the pipeline coordinate. If there is no such lane, because a role's representative differs in more, it is
/// the first lane of that stage.
std::vector<TraceFlow> flows(const std::vector<const Lane*>& lanes, const TaskGraph& graph);

}  // namespace tandem
