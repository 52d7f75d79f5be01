#pragma once
// Prediction laid over measurement, or one run over another, task by task.

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Time of some tasks in both performers: the sum of (ended - started) over the joined tasks, mean per executed rank.
struct CompareLine {
  std::string what;          ///< e.g. an operation kind, "stage 1", "all_reduce tensor"
  std::int64_t tasks = 0;    ///< joined, over all ranks
  Duration simulated, executed;
  double error = 0;          ///< (simulated - executed) / executed; 0 when both are 0, infinite when only executed is
};

/// Two timelines of one plan, joined by TaskKey. Where both are of one performer, `simulated` stands for the first file and
/// `executed` for the second, the baseline.
struct Comparison {
  Performer first = Performer::simulated, second = Performer::executed;
  CompareLine step;                                                 ///< whole step times; tasks = 0
  CompareLine waiting;                                              ///< of the step, per rank: no task of the rank runs; tasks = 0
  std::vector<CompareLine> kinds, stages, collectives;              ///< ascending name, stage number, name
  std::vector<CompareLine> operations;                              ///< "block_forward: qkv", ascending
  std::int64_t joined = 0, only_simulated = 0, only_executed = 0;   ///< tasks over all ranks
  std::int64_t simulated_peak_bytes = 0, executed_peak_bytes = 0;   ///< arena of the heaviest rank
  double memory_error = 0;                                          ///< (simulated - executed) / executed
};

/// Whether the comparison is of two runs, or of two simulations: a change against a baseline, not an error.
inline bool of_one_performer(const Comparison& c) { return c.first == c.second; }

/// Joins two saved timelines by TaskKey; a role's lane stands for all its ranks. Throws ConfigError on unreadable files, on
/// an executed timeline before a simulated one and on plans that differ in model, parallel or training.
Comparison compare(const std::string& first_path, const std::string& second_path);

/// Whether two timelines may be laid over one another. Throws ConfigError, with their paths, as above.
void require_comparable(const SavedTimeline& first, const SavedTimeline& second, const std::string& first_path,
                        const std::string& second_path);

/// The same for timelines in memory that are comparable.
Comparison compare(const SavedTimeline& simulated, const SavedTimeline& executed);

/// A table for people.
std::string to_text(const Comparison& comparison);

/// schema_version, step, waiting, kinds[], stages[], collectives[], operations[], joined and memory; times in seconds, errors as fractions.
std::string to_json(const Comparison& comparison);

}  // namespace tandem
