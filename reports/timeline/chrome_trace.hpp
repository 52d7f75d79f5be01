#pragma once
// A timeline as Chrome trace-event JSON, which Perfetto and chrome://tracing open.

#include <string>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// Most lanes of a trace. If there are more, only the first lane of every stage is written, and the trace says so.
inline constexpr std::size_t kTraceLanes = 50;

/// The trace as text. One process (pid) per lane, numbered by its first rank; one thread (tid) per stream: 0 compute, 10
/// tensor, 20 data, 30 send, 31 recv. Slices never overlap on a thread; a communication's slice begins when this rank was
/// ready and its wait is in args. Memory counters by kind; a flow arrow from every send to its receive. Times in us.
std::string chrome_trace(const Timeline& timeline, const TaskGraph& graph);

/// Writes this trace to a file. Throws ConfigError if it cannot be written.
void save_chrome_trace(const Timeline& timeline, const TaskGraph& graph, const std::string& path);

}  // namespace tandem
