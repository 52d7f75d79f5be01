#pragma once
// Published measurements: records of plans and what they took.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/left_out.hpp"

namespace tandem::program {

/// One line of a measurement file.
struct Measurement {
  std::string id, set;                      ///< set: the file's stem
  std::string grade;                        ///< A, B or C (sanity only); A where the record does not say
  std::string plan_json;                    ///< with the stack that the record says (record_stack.hpp)
  std::string cluster;                      ///< preset that the caller has it run on in place of the one it names; empty: that one
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;
  std::string memory_kind;                  ///< allocated, reserved or device
  std::string memory_rank;                  ///< heaviest, last_stage or first_node
  bool out_of_memory = false;               ///< the run ended for lack of memory
  bool tells() const { return step_time_s || peak_memory_bytes || out_of_memory; }  ///< whether anything that is judged was measured
  std::vector<std::string> assumed;         ///< fields that the source does not state
  std::vector<std::string> published_in;    ///< repositories and papers that the record's source names
  std::vector<std::string> evidence;        ///< those that its notes name: recipes and scripts of the run
  Sources without;                          ///< what its prediction goes without (left_out.hpp); empty: nothing
  std::vector<std::string> unread;          ///< keys that nobody knows, dotted, and a framework without a stack
};

/// Which records are taken, everything where the lists are empty, and where their plans run.
struct MeasurementFilter {
  std::vector<std::string> sets, grades;
  std::vector<std::string> without;             ///< sets that are not
  std::map<std::string, std::string> clusters;  ///< by set: the preset that its plans run on in place of the one they name
};

/// One line about what is not read of the records; empty: nothing.
std::string unread_text(const std::vector<Measurement>& measurements);

/// Every record of a measurement file (JSON lines). Throws ConfigError naming file and line.
std::vector<Measurement> read_measurements(const std::string& path);

/// The chosen records of several files, in order, each on the cluster that the filter has for its set, else on its own.
/// Throws ConfigError when a chosen set is in none of them or there is no such grade or cluster.
std::vector<Measurement> read_measurements(const std::vector<std::string>& paths, const MeasurementFilter& filter);

}  // namespace tandem::program
