#pragma once
// A config.json as models on the Hugging Face hub have it.

#include <string>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Reads a config.json, or that of the folder `path`. Python writes Infinity and NaN, which are no JSON: they become null. Throws
/// ConfigError where it cannot be read or is no object.
nlohmann::json read_config(const std::string& path);

/// The file that read_config reads for `path`.
std::string config_path(const std::string& path);

/// Whether a document looks like such a configuration and not like a file of Tandem's.
bool is_config(const nlohmann::json& document);

}  // namespace tandem::huggingface
