#pragma once
// Live memory over time: the memory plan combined with the times of a timeline.

#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/memory_sample.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// Live bytes by kind of one rank, ascending in time, one sample wherever they change; the first is at 0. A tensor lives
/// from the start of its first instance to the end of its last one. `program` is the program of the lane's stage.
std::vector<MemorySample> memory_over_time(const Lane& lane, const Program& program);

}  // namespace tandem
