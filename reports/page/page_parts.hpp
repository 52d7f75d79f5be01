#pragma once
// Parts that pages about one step share, as JSON for reports/html: labels, timelines in boxes, memory.

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// "ranks 64 to 95, all alike (pp1 dp0 tp0)", "rank 64, one of 32 alike (...)" if they are not consecutive, "rank 5 (...)". The
/// coordinates are the first rank's; axes that the plan does not split are left out.
std::string ranks_label(const std::vector<std::int32_t>& ranks, const Coords& coords, const ParallelSpec& plan);

/// {step_ns, phases[], tasks[], merged, lanes[]{role, streams[]{stream, boxes[]}}}; a box is [from, length (ns), phase, task, layer,
/// micro-batch]. Only the lanes `chosen`; tasks are merged if there are too many to draw.
nlohmann::ordered_json drawn_timeline(const Timeline& timeline, const TaskGraph& graph, const std::vector<std::size_t>& chosen);

/// Rows of [ns, bytes of every kind]; `runtime`: memory of the device's runtime. Long curves are thinned, peaks are kept.
nlohmann::ordered_json memory_curve(const std::vector<MemorySample>& samples, Bytes runtime);

/// Bytes by the name of their kind.
nlohmann::ordered_json memory_by_kind(const BytesByKind& bytes);

/// Names of the kinds, in the order of a curve's columns.
nlohmann::ordered_json memory_kinds();

/// Sum over all kinds of a sample.
Bytes total(const MemorySample& sample);

}  // namespace tandem
