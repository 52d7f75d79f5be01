#pragma once
// Plans read with the facts of the cluster presets that they name.

#include <optional>
#include <string>
#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// The generation of a cluster's devices ("hopper"), by the name of a preset or the path of a file. A device that names none has that of
/// the device presets with its calibration. Empty where there is none, they differ, or the file cannot be read: building the cluster
/// refuses such files with the reason.
std::string generation_of(const std::string& cluster);

/// parse_plan and load_plan of models/plan/plan.hpp with generation_of. `stack` stands in place of what the file says.
Plan parse_plan(std::string_view text, const std::string& file, const std::optional<StackChoice>& stack = std::nullopt);
Plan load_plan(const std::string& path, const std::optional<StackChoice>& stack = std::nullopt);

}  // namespace tandem
