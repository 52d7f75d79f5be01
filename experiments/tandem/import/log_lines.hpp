#pragma once
// Reads a log of any length: of a long one only the lines that an import needs.

#include <cstddef>
#include <string>

#include "models/base/json.hpp"

namespace tandem::import {

/// The text of a file with options, a configuration or a log. Of a log that is longer than `most` bytes: its blocks of arguments, and
/// what measurements_of reads. Throws ConfigError if the file cannot be read, or if a JSON document or what is needed is longer.
std::string read_log(const std::string& path, std::size_t most = JsonLimits{}.max_bytes);

}  // namespace tandem::import
