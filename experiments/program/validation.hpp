#pragma once
// Predictions laid over published measurements: records, and what a set of them says about the simulator.

#include <optional>
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace tandem::program {

/// One line of a measurement file.
struct Measurement {
  std::string id, set;                      ///< set: the file's stem
  std::string plan_json;
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;
  std::string memory_kind;                  ///< allocated, reserved or device; empty without a measured peak
  std::string memory_rank;                  ///< heaviest or last_stage
};

/// A record after its simulation. `refused` says why there is no prediction; empty when there is one.
struct ValidatedRecord {
  Measurement measured;
  std::optional<double> step_time_s;
  std::optional<double> peak_memory_bytes;  ///< of the kind and rank that was measured
  bool fits = true;
  std::string refused;
};

/// Errors are fractions, (predicted - measured) / measured; empty where nothing was measured and predicted.
struct SetSummary {
  std::string name;
  int n = 0;                                ///< predicted records with a measured step time
  int refused = 0;
  std::optional<double> mape, median_ape, bias, worst, memory_mape;
};

/// Every record of a measurement file (JSON lines). Throws ConfigError naming file and line.
std::vector<Measurement> read_measurements(const std::string& path);

/// Simulates one record; a plan that is refused is an answer and no error.
ValidatedRecord validate(const Measurement& measurement);

/// One summary per set, in order of first appearance.
std::vector<SetSummary> summarise(const std::vector<ValidatedRecord>& records);

std::string to_text(const std::vector<SetSummary>& sets);
std::string to_json(const std::vector<SetSummary>& sets, const std::vector<ValidatedRecord>& records);

}  // namespace tandem::program
