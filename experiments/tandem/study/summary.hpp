#pragma once
// What a sweep found, for people and scripts.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/study/study.hpp"

namespace tandem::study {

struct Tally {
  std::size_t points = 0, computed = 0, kept = 0, missing = 0;
  std::map<std::string, std::size_t> by_status;
};

/// Counts, the best plan that fits (by the study's goal, else the one that uses its devices best), and every published figure beside its prediction.
std::string summary_text(const Study& study, const std::vector<std::string>& lines, const Tally& tally);

/// The same as one JSON object (schema_version 1).
std::string summary_json(const Study& study, const std::vector<std::string>& lines, const Tally& tally);

/// Why a sweep has found nothing: the plan that comes nearest to fitting, the fastest where none is in time, or why plans cannot be. Empty
/// where a plan fits (and is in time), or where there is no row.
std::string nothing_found(const Study& study, const std::vector<std::string>& lines);

}  // namespace tandem::study
