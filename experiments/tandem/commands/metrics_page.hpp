#pragma once
// The HTML page about a file of `train --metrics`.

#include <string>

#include "models/base/input.hpp"

namespace tandem::program {

/// True if the first line of a file is one that `tandem train --metrics` writes.
bool is_metrics(InputFile& file);

/// A page about the file `path`. A last line that a kill cut off is left out. Throws ConfigError for other lines.
std::string metrics_page(const std::string& path, InputFile& file);

}  // namespace tandem::program
