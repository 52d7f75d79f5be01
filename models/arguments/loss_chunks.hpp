#pragma once
// Chunks of Liger Kernel's fused linear cross-entropy.

#include "models/base/json.hpp"

namespace tandem::arguments {

/// Number of chunks in which it takes the loss of so many tokens. Null if a number is missing, or if the last chunk is shorter: a plan
/// has equal chunks.
nlohmann::json liger_chunks(const nlohmann::json& tokens, const nlohmann::json& vocabulary, const nlohmann::json& hidden);

}  // namespace tandem::arguments
