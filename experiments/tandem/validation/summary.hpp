#pragma once
// Errors of the simulator over a set of records, as fractions (predicted - measured) / measured.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/validation/ranking.hpp"

namespace tandem::program {

struct ErrorSummary {
  int n = 0;
  std::optional<double> mape, median_ape, bias, worst;  ///< worst with its sign; nullopt if n is 0
  std::string worst_id;
};

/// Number of runs by how they ended and whether they were predicted to fit into memory.
struct FitsTable {
  int ran_fits = 0, ran_too_large = 0, failed_fits = 0, failed_too_large = 0;
  void add(const FitsTable& other);
};

/// Summary of a set's records of grades A and B.
struct SetSummary {
  std::string name;
  std::string cluster;     ///< presets that the caller runs its plans on instead of their own; empty: their own
  bool excluded = false;   ///< excluded from the means over sets
  int refused = 0;
  std::vector<std::string> unjudged;  ///< why records with a measured step time have no prediction; begins with the record's id
  int assumed = 0;         ///< predicted records with fields that the source does not state
  ErrorSummary time;
  std::optional<double> baseline_mape;
  ErrorSummary beside_baseline;    ///< time errors of the records with a baseline (not alone in a device and type)
  std::optional<double> coverage;  ///< fraction of measured times inside their range; see JudgedRecord
  Ranking ranking;
  Noise noise;
  ErrorSummary memory;
  FitsTable fits;
};

/// Means over sets with timed records that are not excluded, with equal weights.
struct OverSets {
  int sets = 0;
  std::optional<double> mape, median_ape, bias, baseline_mape, coverage;
  std::optional<double> coverage_of_records;  ///< over these sets' records, with equal weights
};

struct Summary {
  std::vector<SetSummary> sets;     ///< in order of first appearance
  std::vector<SetSummary> pools;
  OverSets over_sets;
  ErrorSummary grade_c;             ///< all records of grade C
  FitsTable fits;                   ///< of all sets
  std::vector<std::string> unverified;  ///< facts used without a confirming source, each once, alphabetical
  std::vector<std::string> measured_tables;  ///< notes about tables of this machine that were used, each once, alphabetical
  std::optional<double> tolerance;  ///< largest allowed `time.mape` of a set, as a fraction
  std::size_t records_given = 0;    ///< more than were judged if interrupted
  bool interrupted = false;
};

/// The sets, not excluded, with a mean absolute error of step times beyond the tolerance, or with a step time that could not be judged;
/// none without a tolerance. Throws ConfigError if there is a tolerance and no step time to judge.
std::vector<const SetSummary*> outside(const Summary& summary);

/// Options of a summary.
struct SummaryOptions {
  std::vector<std::string> excluded;            ///< sets that are shown but excluded from the means
  std::vector<std::vector<std::string>> pools;  ///< sets whose records are also shown together ("a+b"), in no mean
};

/// Throws ConfigError if a set in `options` has no measurements.
void require_known_sets(const SummaryOptions& options, const std::vector<Measurement>& measurements);

/// Summarises the records. Sets in `options` without records are omitted.
Summary summarise(const std::vector<JudgedRecord>& records, const SummaryOptions& options = {});

}  // namespace tandem::program
