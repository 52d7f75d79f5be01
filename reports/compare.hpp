#pragma once
// Prediction laid over measurement, task by task.

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "reports/saved_timeline.hpp"

namespace tandem {

/// Time of some tasks in both performers: the sum of (ended - started) over the joined tasks, mean per executed rank.
struct CompareLine {
  std::string what;          ///< e.g. an operation kind, "stage 1", "all_reduce tensor"
  std::int64_t tasks = 0;    ///< joined, over all ranks
  Duration simulated, executed;
  double error = 0;          ///< (simulated - executed) / executed; 0 when both are 0, infinite when only executed is
};

/// Two timelines of one plan, joined by TaskKey.
struct Comparison {
  CompareLine step;                                                 ///< whole step times; tasks = 0
  std::vector<CompareLine> kinds, stages, collectives;              ///< ascending name, stage number, name
  std::int64_t joined = 0, only_simulated = 0, only_executed = 0;   ///< tasks over all ranks
  std::int64_t simulated_peak_bytes = 0, executed_peak_bytes = 0;   ///< arena of the heaviest rank
  double memory_error = 0;                                          ///< (simulated - executed) / executed
};

/// Joins two saved timelines by TaskKey; a role's lane stands for all its ranks. Throws ConfigError on unreadable files, on
/// a file of the other performer and on plans that differ in model, parallel or training.
Comparison compare(const std::string& simulated_path, const std::string& executed_path);

/// The same for timelines in memory; the paths are only used in messages.
Comparison compare(const SavedTimeline& simulated, const SavedTimeline& executed);

/// A table for people.
std::string to_text(const Comparison& comparison);

/// schema_version, step, kinds[], stages[], collectives[], joined and memory; times in seconds, errors as fractions.
std::string to_json(const Comparison& comparison);

}  // namespace tandem
