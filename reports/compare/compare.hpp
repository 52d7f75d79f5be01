#pragma once
// Compares a prediction with a measurement, or one run with another, task by task.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "reports/compare/plan_differences.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/timeline/step_times.hpp"

namespace tandem {

/// Time of some tasks in both performers: the sum of (ended - started), mean per executed rank. Tasks that only one of them has
/// count on its side, so that the lines of a table add up to all tasks of each.
struct CompareLine {
  std::string what;          ///< e.g. an operation kind, "stage 1", "all_reduce tensor"
  std::int64_t tasks = 0;    ///< joined, over all ranks
  Duration simulated, executed;
  double error = 0;          ///< (simulated - executed) / executed; 0 when both are 0, infinite when only executed is
  double share = 0;          ///< (simulated - executed) / the second timeline's step
};

/// Step times over all recorded steps. A simulation has one, without a spread.
struct TypicalStep {
  StepTimes first, second;
  double error = 0;          ///< error of the first median, relative to the second
  double low = 0, high = 0;  ///< least and largest error between the two spreads
};

/// Two kinds of operation whose errors cancel in the step.
struct Cancelling {
  std::string over, under;   ///< the kind with the largest error of either sign
  double over_share = 0, under_share = 0;  ///< sums of each sign, as shares of the second timeline's step; both positive
};

/// A comparison of two timelines of one model. If both have the same performer, `simulated` means the first file and `executed` the
/// second, the baseline.
struct Comparison {
  Performer first = Performer::simulated, second = Performer::executed;
  CompareLine step;                                                 ///< the steps that the timelines hold; tasks = 0
  TypicalStep typical;
  CompareLine waiting;                                              ///< mean over ranks: time without a running task; tasks = 0
  std::vector<CompareLine> kinds, collectives;                      ///< largest difference first
  std::vector<CompareLine> stages;                                  ///< ascending; none if the plans' stages differ
  std::vector<CompareLine> ranks;                                   ///< "rank 5": ranks that compute for another time, largest
                                                                    ///< difference first; none if layouts differ; tasks = 0
  std::vector<CompareLine> operations;                              ///< "block_forward: qkv", largest difference first
  std::int64_t joined = 0, only_simulated = 0, only_executed = 0;   ///< tasks over all ranks
  Duration only_simulated_time, only_executed_time;                 ///< of those without a counterpart, per rank
  std::int64_t simulated_peak_bytes = 0, executed_peak_bytes = 0;   ///< arena of the heaviest rank
  double memory_error = 0;                                          ///< (simulated - executed) / executed
  bool by_rank = true;                  ///< tasks are joined rank by rank; else the layouts differ, and means are joined by name
  std::vector<PlanDifference> differences;  ///< differences of the plans
  std::optional<Cancelling> cancelling;
  std::vector<std::string> notes;       ///< notes for the reader
};

/// Whether the comparison is of two runs, or of two simulations: a change against a baseline, not an error.
inline bool of_one_performer(const Comparison& c) { return c.first == c.second; }

/// Joins two saved timelines by TaskKey; a role's lane stands for all its ranks. Throws ConfigError on unreadable files, on
/// an executed timeline before a simulated one and on plans that differ in model, batch or sequence.
Comparison compare(const std::string& first_path, const std::string& second_path);

/// Throws ConfigError with the paths, as above, if two timelines cannot be compared.
void require_comparable(const SavedTimeline& first, const SavedTimeline& second, const std::string& first_path,
                        const std::string& second_path);

/// Likewise for timelines in memory, which must be comparable.
Comparison compare(const SavedTimeline& simulated, const SavedTimeline& executed);

}  // namespace tandem
