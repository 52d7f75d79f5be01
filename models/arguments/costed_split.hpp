#pragma once
// Layers of pipeline stages that are filled by cost.

#include "models/base/json.hpp"

namespace tandem::arguments {

/// Layers of each stage as nanotron fills them (src/nanotron/models/base.py, build_model): blocks go to a stage until their cost exceeds
/// that of all blocks times its number of `stages`, counted from one. `layer` and `head` are costs in one unit, whole numbers. Throws
/// ConfigError for other values.
nlohmann::json costed_split(const nlohmann::json& layers, const nlohmann::json& stages, const nlohmann::json& layer,
                            const nlohmann::json& head);

}  // namespace tandem::arguments
