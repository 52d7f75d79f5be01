#pragma once
// Reads plans with the facts of the cluster presets that they name.

#include <optional>
#include <string>
#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// The generation of a cluster's devices ("hopper"); `cluster` is a preset's name or a file's path. A device that names none gets
/// that of the device presets with its calibration. Empty if there is none, if these differ, or if the file cannot be read.
/// Building the cluster reports such errors.
std::string generation_of(const std::string& cluster);

/// parse_plan and load_plan of models/plan/plan.hpp with generation_of. `stack` replaces the file's.
Plan parse_plan(std::string_view text, const std::string& file, const std::optional<StackChoice>& stack = std::nullopt);
Plan load_plan(const std::string& path, const std::optional<StackChoice>& stack = std::nullopt);

}  // namespace tandem
