#pragma once
// Values of a JSON object by dotted path: "parallel.offload.ratio".

#include <string_view>

#include "models/base/json.hpp"

namespace tandem {

/// The value at `path`; null pointer if there is none. Keys that have dots themselves are never found.
const nlohmann::json* find_dotted(const nlohmann::json& object, std::string_view path);

/// Sets the value at `path` and keeps the order of keys. Makes the objects above it.
void put_dotted(nlohmann::ordered_json& object, std::string_view path, const nlohmann::json& value);

}  // namespace tandem
