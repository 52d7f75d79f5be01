#pragma once
// TOML files as JSON, and back.

#include <string>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// The document of a TOML text; dates and times become strings. Throws ConfigError with line and column for a text that is no TOML.
nlohmann::json parse_toml(const std::string& text, const std::string& file);

/// A JSON object of objects as TOML, tables in the object's order. Nulls are left out.
std::string toml_text(const nlohmann::ordered_json& object);

}  // namespace tandem::arguments
