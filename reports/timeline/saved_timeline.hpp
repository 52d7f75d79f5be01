#pragma once
// A timeline as a file holds it: readable without the graph that made it.

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

/// What all spans of one template task share. `group` is empty except for collectives.
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
  std::optional<RunHistory> history{};    ///< of a training, where its timeline was written with one
  /// Of a simulation: the measured table that it took times from, empty where there was none. Nothing where the file does not say.
  std::optional<std::string> measured_table{};
};

/// The file form of a timeline; tasks are listed once, in order of first appearance, and once for each number of FLOPs that
/// `routing`, where given, makes of them. Throws ContractError when a span does not lie in the graph.
SavedTimeline saved(const Timeline& timeline, const TaskGraph& graph, const Routing* routing = nullptr);

/// Writes it as read_timeline reads it, with its checksum. Written beside and renamed. Throws ConfigError when the file cannot be
/// written.
void write_timeline(const SavedTimeline& timeline, const std::string& path);

/// Throws ConfigError when the file is missing, no timeline, of another schema_version or damaged. A file with a checksum must have
/// that of its content; of one without, the numbers must fit each other. Reads the file once, as it comes; up to 4 GiB.
SavedTimeline read_timeline(const std::string& path);

/// The same of a file that is open; `path` is only used in messages.
SavedTimeline read_timeline(InputFile& file, const std::string& path);

/// The checksum of a timeline's file: a digest of everything that is read of it, whatever blanks it is written with. One changed
/// number changes it.
std::string checksum_text(const SavedTimeline& timeline);

}  // namespace tandem
