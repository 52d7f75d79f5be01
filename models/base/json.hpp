#pragma once
// JSON, the one home of the JSON library's name in a header (its forward declarations only).
// Every refusal is a ConfigError that names the file and the place in it.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "models/base/error.hpp"

namespace tandem {

/// Limits of a JSON text. A larger text is refused before it costs time or memory.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;  ///< size of the file
  int max_depth = 64;                             ///< objects and arrays inside one another
};

/// The bytes of a file. Throws ConfigError when it cannot be read, is a directory or is larger than `max_bytes`.
std::string read_text(const std::string& path, std::size_t max_bytes = JsonLimits{}.max_bytes);

/// Parses strict JSON: UTF-8 without byte-order mark, no comments, no duplicate key, no number outside a double, no
/// text behind the value. `file` is only used in messages. Throws ConfigError with the line and column, or with the
/// dotted path of the field.
nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

/// read_text and parse_json.
nlohmann::json read_json(const std::string& path, const JsonLimits& limits = {});

/// A JSON value as it stands in a message: one line, at most `limit` bytes.
std::string value_text(const nlohmann::json& value, std::size_t limit = 60);

/// "an object", "a string", "a whole number" ...
std::string kind_text(const nlohmann::json& value);

}  // namespace tandem
