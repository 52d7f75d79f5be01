#pragma once
// Makes a timeline small enough to draw: alike neighbours become one box.

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// One activity of a stream from `from` to `to` (nanoseconds). `task` is an index into BoxedTimeline::tasks, -1 if several
/// tasks are drawn together.
struct Box {
  std::int64_t from, to;
  std::int32_t phase, task, layer, micro_batch;
};

struct BoxedStream {
  Stream stream = Stream::compute;
  std::vector<Box> boxes;
};

struct BoxedLane {
  std::size_t lane = 0;  ///< index into Timeline::lanes
  std::vector<BoxedStream> streams;
};

struct BoxedTimeline {
  std::vector<std::string> tasks;
  std::vector<BoxedLane> lanes;
  bool merged = false;  ///< tasks of one pass of a micro-batch are drawn together
};

/// Boxes of the lanes `chosen`. Up to `most` tasks are drawn one by one. If there are more, tasks of one pass of one
/// micro-batch that follow each other closely are one box.
BoxedTimeline boxes(const Timeline& timeline, const TaskGraph& graph, const std::vector<std::size_t>& chosen,
                    std::size_t most);

/// Picks at most `limit` lanes evenly, always with those of `always`; ascending.
std::vector<std::size_t> picked_lanes(std::size_t lanes, std::size_t limit, const std::vector<std::size_t>& always);

}  // namespace tandem
