#pragma once
// A config.json as models on the Hugging Face hub have it.

#include <string>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Reads a config.json, or that of the folder `path`. Python writes Infinity and NaN, which are no JSON: they become null. Throws
/// ConfigError where it cannot be read or is no object.
nlohmann::json read_config(const std::string& path);

/// The same file, which may also be Tandem's own: only a configuration may have Infinity and NaN. Throws ConfigError where it cannot
/// be read.
nlohmann::json read_config_or_own(const std::string& path);

/// The file that read_config reads for `path`.
std::string config_path(const std::string& path);

/// What to call the model of a configuration that was read from `file`: its own name, else the file's, else the folder's, else its type.
std::string model_name(const nlohmann::json& config, const std::string& file);

/// Whether a document looks like such a configuration and not like a file of Tandem's.
bool is_config(const nlohmann::json& document);

}  // namespace tandem::huggingface
