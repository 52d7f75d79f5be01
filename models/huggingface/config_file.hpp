#pragma once
// Reads a config.json of a model on the Hugging Face hub.

#include <cstdint>
#include <string>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Reads a config.json, or the one in folder `path`. Python's Infinity and NaN, which are
/// not JSON, become null. Throws ConfigError if it cannot be read or is not an object.
nlohmann::json read_config(const std::string& path);

/// Likewise for a file that may also be Tandem's own, in which Infinity
/// and NaN are errors. Throws ConfigError if it cannot be read.
nlohmann::json read_config_or_own(const std::string& path);

/// Parameters of the weights beside a configuration's file, as model.safetensors.index.json says: their number, or their bytes in the
/// configuration's type. 0 where it says neither, and for quantized weights. Throws ConfigError for an index that is no JSON.
std::int64_t stored_parameters(const nlohmann::json& config, const std::string& file);

/// The file that read_config(`path`) reads.
std::string config_path(const std::string& path);

/// Name for the model of a configuration read from `file`: its own name, else the file's, the folder's, or its type.
std::string model_name(const nlohmann::json& config, const std::string& file);

/// Whether a document looks like a Hugging Face configuration rather than a file of Tandem's.
bool is_config(const nlohmann::json& document);

}  // namespace tandem::huggingface
