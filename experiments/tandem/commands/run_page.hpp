#pragma once
// HTML pages about timeline files: one file, or a prediction compared with a measurement.

#include <string>

#include "models/base/input.hpp"
#include "reports/compare/compare.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem::program {

/// True if a file begins like the output of `tandem simulate --timeline` or `tandem train --timeline`.
bool is_timeline(InputFile& file);

/// A page about the timeline file `path`. Throws ConfigError.
std::string run_page(const std::string& path, InputFile& file);

/// A page that compares two timelines, from the files `first` and `second`. Throws ConfigError.
std::string comparison_page(const std::string& first, const SavedTimeline& newer, const std::string& second,
                            const SavedTimeline& older, const Comparison& comparison);

}  // namespace tandem::program
