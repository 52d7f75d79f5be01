#include "models/huggingface/config_file.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "models/base/files.hpp"

namespace tandem::huggingface {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kNoJson{"-Infinity", "Infinity", "NaN"};

/// The text with Python's numbers outside of strings made null.
std::string strict(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') ++i;
    else if (text[i] == '"') quoted = !quoted;
    if (quoted || i >= text.size()) continue;
    for (const std::string_view word : kNoJson)
      if (std::string_view(text).substr(i).starts_with(word)) text.replace(i, word.size(), "null");
  }
  return text;
}

}  // namespace

std::string config_path(const std::string& path) {
  if (!is_folder(path)) return path;
  return path + (path.ends_with('/') ? "" : "/") + "config.json";
}

json read_config(const std::string& path) {
  const std::string file = config_path(path);
  json document = parse_json(strict(read_text(file)), file);
  if (!document.is_object())
    throw ConfigError(Problem{file, "", value_text(document), "must be an object, not " + kind_text(document), "name a model's config.json"});
  return document;
}

bool is_config(const json& document) {
  return document.is_object() && !document.contains("model") &&
         (document.contains("model_type") || document.contains("architectures") || document.contains("text_config"));
}

}  // namespace tandem::huggingface
