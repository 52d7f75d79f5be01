#pragma once
// The findings of a sweep, as text and JSON.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/study/study.hpp"

namespace tandem::study {

struct Tally {
  std::size_t points = 0, computed = 0, kept = 0, missing = 0;
  std::map<std::string, std::size_t> by_status;
};

/// Counts, the best fitting plan (by the study's goal, else by device utilisation), and published figures beside predictions.
std::string summary_text(const Study& study, const std::vector<std::string>& lines, const Tally& tally);

/// The summary as one JSON object (schema_version 1).
std::string summary_json(const Study& study, const std::vector<std::string>& lines, const Tally& tally);

/// Why a sweep found nothing: the plan nearest to fitting, the fastest one if none is in time, or why plans are impossible. Empty
/// if a plan fits (and is in time), or there are no rows.
std::string nothing_found(const Study& study, const std::vector<std::string>& lines);

}  // namespace tandem::study
