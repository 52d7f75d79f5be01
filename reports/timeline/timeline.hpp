#pragma once
// The recorded times of a step, in one form for simulated and executed runs.

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "reports/timeline/run_history.hpp"

namespace tandem {

/// One task as it happened. Times count from the start of the step.
struct Span {
  std::uint32_t instance;   ///< index into the lane's program
  std::uint16_t task;       ///< index into the instance's template
  Duration issued;          ///< the host launched it
  Duration ready;           ///< this rank could start: stream free, dependencies done
  Duration started;         ///< the last participant had arrived (= ready for computation)
  Duration ended;
};

/// One rank's step, or one role's (a class of alike ranks) in a simulation.
struct Lane {
  Coords coords;                   ///< coordinates of the representative, the first of `ranks`
  std::vector<std::int32_t> ranks; ///< all ranks it stands for, ascending
  std::vector<Span> spans;         ///< in issue order
  Bytes arena_bytes;               ///< bytes per rank: planned (simulated) or allocated (executed)
  std::vector<RouterCounts> routing;  ///< the representative's, if tokens chose experts: executed, or replayed
};

enum class Performer : std::uint8_t { simulated, executed };

/// One step of a plan, simulated or executed. Names and FLOPs are looked up in the graph, which the plan determines.
struct Timeline {
  Performer performer = Performer::simulated;
  std::string plan_json;           ///< the completed plan
  Duration step_time;
  std::vector<Lane> lanes;         ///< ascending first rank
};

/// Writes a timeline (JSON, schema_version 1): every span with its TaskKey, stream, operation kind, payload and FLOPs, so that
/// `read_timeline` (reports/timeline/saved_timeline.hpp) needs no graph. With `routing`, FLOPs of experts are those of the rows
/// that they got. `history`: all steps of a training. Writing is atomic: a temporary file is renamed. Throws ConfigError if the
/// file cannot be written.
void save_timeline(const Timeline& timeline, const TaskGraph& graph, const std::string& path, const Routing* routing = nullptr,
                   const RunHistory* history = nullptr);

}  // namespace tandem
