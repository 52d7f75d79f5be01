#pragma once
// What a page about a study shows, from the folder that a sweep left.

#include <string>

namespace tandem::study {

struct StudyReport {
  std::string name;
  std::string data;  ///< JSON for reports/html/study.js: the study and the rows of its results
};

/// Reads study.json and results.jsonl of `folder`. Throws ConfigError when they are missing or no results of a sweep.
StudyReport read_report(const std::string& folder);

}  // namespace tandem::study
