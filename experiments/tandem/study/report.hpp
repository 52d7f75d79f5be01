#pragma once
// The contents of a page about a study, from a sweep's output folder.

#include <string>

namespace tandem::study {

struct StudyReport {
  std::string name;
  std::string data;  ///< JSON for reports/html/study.js: the study and its result rows
};

/// Reads study.json and results.jsonl of `folder`. Throws ConfigError if they are missing or not a sweep's.
StudyReport read_report(const std::string& folder);

}  // namespace tandem::study
