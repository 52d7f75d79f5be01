#include "models/huggingface/config_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/base/files.hpp"
#include "models/base/text.hpp"

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

/// `kinds` is what the file may be, for the remedy: models are often named as the hub names them.
std::string text_of(const std::string& file, const std::string& kinds) {
  if (file_state(file).kind == FileKind::absent)
    throw ConfigError(Problem{file, "", "", "there is no such file", "give the path of " + kinds + " or of the folder that has it: Tandem downloads nothing"});
  return read_text(file);
}

/// Bytes of a number in the type that transformers saves a configuration's weights in; 0 if it does not say.
std::int64_t saved_bytes(const json& config) {
  for (const json& place : {config, config.value("text_config", json::object())})
    for (const char* field : {"dtype", "torch_dtype"}) {
      const json type = place.is_object() ? place.value(field, json()) : json();
      if (type == "bfloat16" || type == "float16") return 2;
      if (type == "float32") return 4;
    }
  return 0;
}

}  // namespace

std::int64_t stored_parameters(const json& config, const std::string& file) {
  const std::string index = file.substr(0, file.find_last_of('/') + 1) + "model.safetensors.index.json";
  const json quantized = config.value("quantization_config", json());
  if (!quantized.is_null() || file_state(index).kind != FileKind::regular) return 0;
  const json said = read_json(index);
  const json metadata = said.is_object() ? said.value("metadata", json::object()) : json::object();
  const auto number = [&](const char* field) {
    const json value = metadata.is_object() ? metadata.value(field, json()) : json();
    return value.is_number() ? std::max<std::int64_t>(0, value.get<std::int64_t>()) : 0;
  };
  const std::int64_t bytes = saved_bytes(config), total = number("total_parameters");
  return total > 0 || bytes == 0 ? total : number("total_size") / bytes;
}

std::string config_path(const std::string& path) {
  if (!is_folder(path)) return path;
  return path + (path.ends_with('/') ? "" : "/") + "config.json";
}

json read_config(const std::string& path) {
  const std::string file = config_path(path);
  json document = parse_json(strict(text_of(file, "a config.json")), file);
  if (!document.is_object())
    throw ConfigError(Problem{file, "", value_text(document), "must be an object, not " + kind_text(document), "name a model's config.json"});
  return document;
}

json read_config_or_own(const std::string& path) {
  const std::string file = config_path(path), text = text_of(file, "a plan, a config.json");
  const json lenient = json::parse(strict(text), nullptr, false);
  return parse_json(is_config(lenient) ? strict(text) : text, file);
}

std::string model_name(const json& config, const std::string& file) {
  for (const char* key : {"_name_or_path", "name_or_path"})
    if (config.contains(key) && config[key].is_string() && !config[key].get_ref<const std::string&>().empty())
      return shortened(config[key].get<std::string>());
  std::string name = file.substr(file.find_last_of('/') + 1);
  if (name == "config.json" && file.size() > name.size()) {
    const std::string folder = file.substr(0, file.size() - name.size() - 1);
    name = folder.substr(folder.find_last_of('/') + 1);
  }
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  const bool says_nothing = name.empty() || name == "." || name == ".." || name == "config";
  return says_nothing && config.contains("model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>() : name;
}

bool is_config(const json& document) {
  return document.is_object() && !document.contains("model") &&
         (document.contains("model_type") || document.contains("architectures") || document.contains("text_config"));
}

}  // namespace tandem::huggingface
