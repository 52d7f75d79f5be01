#pragma once
// Reads a config.json of a model on the Hugging Face hub.

#include <string>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Reads a config.json, or the one in folder `path`. Python's Infinity and NaN, which are
/// not JSON, become null. Throws ConfigError if it cannot be read or is not an object.
nlohmann::json read_config(const std::string& path);

/// Likewise for a file that may also be Tandem's own, in which Infinity
/// and NaN are errors. Throws ConfigError if it cannot be read.
nlohmann::json read_config_or_own(const std::string& path);

/// The file that read_config(`path`) reads.
std::string config_path(const std::string& path);

/// Name for the model of a configuration read from `file`: its own name, else the file's, the folder's, or its type.
std::string model_name(const nlohmann::json& config, const std::string& file);

/// Whether a document looks like a Hugging Face configuration rather than a file of Tandem's.
bool is_config(const nlohmann::json& document);

}  // namespace tandem::huggingface
