#pragma once
// Predictions of a source's records as if that source had never been seen.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/validation/summary.hpp"

namespace tandem::program {

/// By set: the sets that were published in the same places, joined by "+", itself among them. They are one source.
std::map<std::string, std::string> one_source(const std::vector<Measurement>& measurements);

/// Copies of the records of `wanted` sets that are predicted without their source (Measurement::without). Sets whose records name
/// the same repository or paper as their source are left out together. Of several wanted sets all are left out at once; "each"
/// takes every set in turn. Throws ConfigError for a name that no measurement has.
std::vector<Measurement> left_out(const std::vector<Measurement>& measurements, const std::vector<std::string>& wanted);

/// Numbers of the device's calibration that rest on step times of these sources and that its file does not have without them, dotted.
std::vector<std::string> still_fitted_on(const std::string& calibration, const Sources& sources);

struct LeftOutSource {
  SetSummary left_out;                    ///< of the predictions without the source
  std::optional<double> mape_with;        ///< of the same set as usual
  std::vector<std::string> together;      ///< the other sets that were left out with it
  std::vector<std::string> still_in;      ///< "DEVICE: KEY" of numbers that could not be left out
};

struct LeftOutSummary {
  std::vector<LeftOutSource> sources;
  OverSets over_sources;                  ///< of the predictions without
  std::optional<double> mape_with;        ///< of the same sources as usual
  std::optional<double> half_covered;     ///< share of sources at least half of whose records lie inside their range
  std::vector<JudgedRecord> records;      ///< as predicted without
};

/// What predictions without a source come to beside the usual ones; `without` are judged copies of left_out().
LeftOutSummary summarise_left_out(std::vector<JudgedRecord> without, const Summary& usual, const SummaryOptions& options = {});

}  // namespace tandem::program
