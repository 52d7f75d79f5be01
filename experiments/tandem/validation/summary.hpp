#pragma once
// What a set of records says about the simulator. Errors are fractions, (predicted - measured) / measured.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/validation/ranking.hpp"

namespace tandem::program {

struct ErrorSummary {
  int n = 0;
  std::optional<double> mape, median_ape, bias, worst;  ///< worst with its sign; empty where n is 0
  std::string worst_id;
};

/// Runs by how they ended and whether they were predicted to fit the memory.
struct FitsTable {
  int ran_fits = 0, ran_too_large = 0, failed_fits = 0, failed_too_large = 0;
  void add(const FitsTable& other);
};

/// Records of grades A and B of one set.
struct SetSummary {
  std::string name;
  std::string cluster;     ///< presets that the caller has its plans run on in place of those they name; empty: those
  bool apart = false;      ///< not in the means over sets
  int refused = 0;
  int assumed = 0;         ///< predicted records with fields that the source does not state
  ErrorSummary time;
  std::optional<double> baseline_mape;
  ErrorSummary beside_baseline;    ///< time errors of the records that have a baseline (not the only one of a device and type)
  std::optional<double> coverage;  ///< share of measured times inside their range; see JudgedRecord
  Ranking ranking;
  Noise noise;
  ErrorSummary memory;
  FitsTable fits;
};

/// Means over sets with timed records that are not apart, each one vote.
struct OverSets {
  int sets = 0;
  std::optional<double> mape, median_ape, bias, baseline_mape, coverage;
  std::optional<double> coverage_of_records;  ///< over their records, each one vote
};

struct Summary {
  std::vector<SetSummary> sets;     ///< in order of first appearance
  std::vector<SetSummary> pools;
  OverSets over_sets;
  ErrorSummary grade_c;             ///< all records of grade C
  FitsTable fits;                   ///< of all sets
  std::vector<std::string> unverified;  ///< facts in use that no source confirms, each once, in alphabetical order
};

/// What the caller wants besides a summary of each set.
struct SummaryOptions {
  std::vector<std::string> apart;               ///< sets that are shown and left out of the means
  std::vector<std::vector<std::string>> pools;  ///< sets whose records are shown together, too ("a+b"), in no mean either
};

/// Throws ConfigError when a set of `options` has none of these measurements.
void require_known_sets(const SummaryOptions& options, const std::vector<Measurement>& measurements);

/// Sets of `options` without a record are left out.
Summary summarise(const std::vector<JudgedRecord>& records, const SummaryOptions& options = {});

}  // namespace tandem::program
