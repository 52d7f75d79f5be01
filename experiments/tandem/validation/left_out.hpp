#pragma once
// Predictions of a source's records as if Tandem had never seen that source.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/validation/summary.hpp"

namespace tandem::program {

/// By set: all sets published in the same places, including itself, joined by "+". Together they are one source.
std::map<std::string, std::string> one_source(const std::vector<Measurement>& measurements);

/// Copies of the `wanted` sets' records, to be predicted without their source (Measurement::without). Sets that name the same
/// repository or paper are left out together. All wanted sets are left out at once; "each" takes every set in turn. Throws
/// ConfigError for an unknown name.
std::vector<Measurement> left_out(const std::vector<Measurement>& measurements, const std::vector<std::string>& wanted);

/// Calibrated numbers of the device, dotted, that rest on these sources and for which the file has no value without them.
std::vector<std::string> still_fitted_on(const std::string& calibration, const Sources& sources);

struct LeftOutSource {
  SetSummary left_out;                    ///< predictions without the source
  std::optional<double> mape_with;        ///< of the set's usual predictions
  std::vector<std::string> together;      ///< other sets left out with it
  std::vector<std::string> still_in;      ///< "DEVICE: KEY" of numbers that still rest on it
};

struct LeftOutSummary {
  std::vector<LeftOutSource> sources;
  OverSets over_sources;                  ///< predictions without their source
  std::optional<double> mape_with;        ///< of the sources' usual predictions
  std::optional<double> half_covered;     ///< fraction of sources with at least half of their records inside the range
  std::vector<JudgedRecord> records;      ///< predicted without their source
};

/// Compares predictions without a source with the usual ones. `without`: judged copies from left_out().
LeftOutSummary summarise_left_out(std::vector<JudgedRecord> without, const Summary& usual, const SummaryOptions& options = {});

}  // namespace tandem::program
