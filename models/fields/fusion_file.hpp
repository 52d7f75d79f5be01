#pragma once
// Files of models/stacks/fusions.

#include <string>
#include <string_view>
#include <vector>

#include "models/plan/fusion_set.hpp"

namespace tandem {

/// Reads a set by name. Throws ConfigError if the file is missing or has another form than models/stacks/README.md says.
FusionSet fusion_set(std::string_view name);

/// Names of all sets, sorted.
std::vector<std::string> fusion_set_names();

}  // namespace tandem
