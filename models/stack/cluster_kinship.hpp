#pragma once
// Which cluster presets a cluster of one's own counts as, where a stack's entries name presets.

#include <string>

#include "models/base/json.hpp"

namespace tandem {

/// The one of `named` (names of cluster presets) that `cluster` (a preset's name, or the path of a cluster file) counts as: itself,
/// or the first with the same device. A device that no preset of a cluster has counts as those with its calibration. `cluster` where there
/// is none, and where its file cannot be read, which its own reader will say.
std::string counts_as(const std::string& cluster, const nlohmann::json& named);

}  // namespace tandem
