#pragma once
// Pages about timeline files: of one, or of a prediction beside its measurement.

#include <string>

namespace tandem::program {

/// Whether a file begins as `tandem simulate --timeline` and `tandem train --timeline` write theirs.
bool is_timeline(const std::string& path);

/// A page about one timeline file. Throws ConfigError.
std::string run_page(const std::string& path);

/// A page about what `tandem compare FIRST SECOND` compares. Throws ConfigError.
std::string comparison_page(const std::string& first, const std::string& second);

}  // namespace tandem::program
