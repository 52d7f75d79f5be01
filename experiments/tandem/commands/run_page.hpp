#pragma once
// Pages about timeline files: of one, or of a prediction beside its measurement.

#include <string>

#include "models/base/input.hpp"
#include "reports/compare/compare.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem::program {

/// Whether a file begins as `tandem simulate --timeline` and `tandem train --timeline` write theirs.
bool is_timeline(InputFile& file);

/// A page about one timeline file, whose name is `path`. Throws ConfigError.
std::string run_page(const std::string& path, InputFile& file);

/// A page about two timelines, read from the files `first` and `second`, and their comparison. Throws ConfigError.
std::string comparison_page(const std::string& first, const SavedTimeline& newer, const std::string& second,
                            const SavedTimeline& older, const Comparison& comparison);

}  // namespace tandem::program
