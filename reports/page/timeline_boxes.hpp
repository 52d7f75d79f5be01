#pragma once
// A timeline made small enough to be drawn: neighbours that look alike are one box.

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// What a stream did from `from` to `to` (nanoseconds). `task` is an index into BoxedTimeline::tasks, -1 where several
/// tasks were drawn together.
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
  bool merged = false;  ///< tasks of one pass of a micro-batch were drawn together
};

/// Boxes of the lanes `chosen`. Up to `most` tasks are shown one by one; beyond, tasks of one pass of one micro-batch
/// that follow each other closely are one box.
BoxedTimeline boxes(const Timeline& timeline, const TaskGraph& graph, const std::vector<std::size_t>& chosen,
                    std::size_t most);

/// At most `limit` lanes: evenly picked by stage and rank, with those of `always` among them; ascending.
std::vector<std::size_t> picked_lanes(std::size_t lanes, std::size_t limit, const std::vector<std::size_t>& always);

}  // namespace tandem
