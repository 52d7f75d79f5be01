#pragma once
// A timeline as stored in a file: readable without its graph.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/input.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

class InputFile;

/// The facts that all spans of one template task share. `group` is empty except for collectives.
struct SavedTask {
  std::string block, task, kind, stream, group;
  Bytes payload;
  Flops flops;
};

struct SavedSpan {
  std::uint32_t task;                     ///< index into SavedTimeline::tasks
  std::int32_t layer, micro_batch, chunk;
  std::int32_t phase;                     ///< index into SavedTimeline::phases
  Duration issued, ready, started, ended;
};

struct SavedLane {
  Coords coords;
  std::vector<std::int32_t> ranks;
  Bytes arena_bytes;
  std::vector<SavedSpan> spans;
  std::vector<RouterCounts> routing;
};

struct SavedTimeline {
  Performer performer = Performer::simulated;
  std::string plan_json;
  Duration step_time;
  std::vector<std::string> phases;
  std::vector<SavedTask> tasks;
  std::vector<SavedLane> lanes;
  std::optional<RunHistory> history{};    ///< history of a training, if it was saved
  /// The measured table that a simulation used; empty: none. Nothing if the file does not say, or if it is no simulation.
  std::optional<std::string> measured_table{};
};

/// Converts a timeline to its file form. Tasks are listed once, in order of first appearance; with `routing`, once for each number
/// of FLOPs that they have. Throws ContractError if a span names no task of the graph.
SavedTimeline saved(const Timeline& timeline, const TaskGraph& graph, const Routing* routing = nullptr);

/// Writes a timeline with its checksum for read_timeline. Writing is atomic: a temporary file is renamed. Throws ConfigError if the
/// file cannot be written.
void write_timeline(const SavedTimeline& timeline, const std::string& path);

/// Throws ConfigError if the file is missing, no timeline, of another schema_version or damaged. A checksum must match the content;
/// without one, the numbers must be consistent. Reads the file once, from start to end; up to 4 GiB.
SavedTimeline read_timeline(const std::string& path);

/// Likewise from an open file; `path` is only used in messages.
SavedTimeline read_timeline(InputFile& file, const std::string& path);

/// The checksum of a timeline's file: a digest of all values that are read from it, whatever its blanks. Any changed number changes
/// it.
std::string checksum_text(const SavedTimeline& timeline);

}  // namespace tandem
