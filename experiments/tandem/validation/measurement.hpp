#pragma once
// Published measurements: records of plans and what they took.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::program {

/// One line of a measurement file.
struct Measurement {
  std::string id, set;                      ///< set: the file's stem
  std::string grade;                        ///< A, B or C (sanity only); A where the record does not say
  std::string source;                       ///< where it was published; empty where the record does not say
  std::string plan_json;
  std::string cluster;                      ///< preset that it runs on in place of the one it names; empty: that one
  std::string changed;                      ///< fields that its run had with other values than it says, and these; empty: none
  std::string named_plan_json;              ///< where there is one or the other: the plan as it says
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;
  std::string memory_unit;                  ///< that its source has memory in, where the record took another; empty: as it has it
  std::optional<double> named_peak_memory_bytes;  ///< then: as the record has it
  std::string memory_note;                  ///< what the record says of its peak, and of itself
  std::string memory_kind;                  ///< allocated, reserved or device
  std::string memory_rank;                  ///< heaviest, last_stage or first_node
  bool out_of_memory = false;               ///< the run ended for lack of memory
  bool tells() const { return step_time_s || peak_memory_bytes || out_of_memory; }  ///< whether anything that is judged was measured
  std::vector<std::string> assumed;         ///< fields that the source does not state
  std::vector<std::string> unread;          ///< keys that nobody knows, dotted
};

/// Which records are taken, everything where the lists are empty, where their plans run and what their memory figures are.
struct MeasurementFilter {
  std::vector<std::string> sets, grades;
  std::vector<std::string> without;             ///< sets that are not
  std::map<std::string, std::string> clusters;  ///< by set: the preset that its plans run on in place of the one they name
  bool as_named = false;                        ///< records are as they say, but for such sets, whatever topology/sites.json knows
};

/// One line about what is not read of the records; empty: nothing.
std::string unread_text(const std::vector<Measurement>& measurements);

/// Every record of a measurement file (JSON lines). Throws ConfigError naming file and line.
std::vector<Measurement> read_measurements(const std::string& path);

/// The chosen records of several files, in order, each on the cluster of its set, else of its site, with memory in its site's
/// unit and the fields that its runs had (sites.hpp). Throws ConfigError when a chosen set is in none of them or there is no such grade or cluster.
std::vector<Measurement> read_measurements(const std::vector<std::string>& paths, const MeasurementFilter& filter);

}  // namespace tandem::program
