#pragma once
// Published measurements: records of plans and their measured times and memory.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/left_out.hpp"

namespace tandem::program {

/// A line of a measurement file.
struct Measurement {
  std::string id, set;                      ///< set: the file name without extension
  std::string grade;                        ///< A, B, or C (only a sanity check); A if the record does not say
  std::string plan_json;                    ///< with the record's stack (record_stack.hpp)
  std::string cluster;                      ///< preset that the caller runs it on instead of the plan's; empty: the plan's
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;
  std::string memory_kind;                  ///< allocated, reserved or device
  std::string memory_rank;                  ///< heaviest, last_stage or first_node
  bool out_of_memory = false;               ///< the run ended because memory ran out
  bool tells() const { return step_time_s || peak_memory_bytes || out_of_memory; }  ///< has a judged measurement
  std::vector<std::string> assumed;         ///< fields that the source does not state
  std::vector<std::string> published_in;    ///< repositories and papers in the record's source
  std::vector<std::string> evidence;        ///< repositories and papers in its notes: recipes and scripts of the run
  Sources without;                          ///< sources to leave out of its prediction (left_out.hpp)
  std::vector<std::string> unread;          ///< unknown keys, dotted, and a framework without a stack
};

/// Selects records (empty lists: all), and clusters to run their plans on.
struct MeasurementFilter {
  std::vector<std::string> sets, grades;
  std::vector<std::string> excluded;            ///< sets to omit
  std::map<std::string, std::string> clusters;  ///< by set: the preset that replaces the plans' own
};

/// One line about parts of the records that are not read; empty: none.
std::string unread_text(const std::vector<Measurement>& measurements);

/// Reads all records of a measurement file (JSON lines). Throws ConfigError that names file and line.
std::vector<Measurement> read_measurements(const std::string& path);

/// The selected records of several files, in order, each on the filter's cluster for its set, else on its own. Throws ConfigError
/// if no file has a chosen set, or the grade or cluster is unknown.
std::vector<Measurement> read_measurements(const std::vector<std::string>& paths, const MeasurementFilter& filter);

}  // namespace tandem::program
