#include "models/arguments/configuration.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/toml_text.hpp"
#include "models/arguments/yaml_text.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// Takes out fields that the caller of the framework fills in, and names them.
void take_out_auto(json& object, const std::string& prefix, std::vector<std::string>& taken) {
  for (auto it = object.begin(); it != object.end();) {
    if (it->is_object()) take_out_auto(*it, prefix + it.key() + ".", taken);
    if (*it != "auto") {
      ++it;
      continue;
    }
    taken.push_back(prefix + it.key());
    it = object.erase(it);
  }
}

/// The path that the option gives; empty if it gives none.
std::string said_path(const Arguments& arguments, const Table& table) {
  const std::string name = table.document->at("configuration").at("option").get<std::string>();
  const auto said = arguments.values->find(name);
  return said != arguments.values->end() && said->is_string() ? said->get<std::string>() : "";
}

/// Adds fields by their names with underscores.
void add_plain_names(const json& document, const std::string& file, json& out) {
  for (const auto& [name, value] : document.items()) {
    std::string plain = name;
    std::replace(plain.begin(), plain.end(), '-', '_');
    if (out.contains(plain))
      throw ConfigError(Problem{file, plain, "", "stands twice, in two files or with a dash and an underscore", "leave one out"});
    out[plain] = value;
  }
}

}  // namespace

bool is_yaml(const std::string& file) { return file.ends_with(".yaml") || file.ends_with(".yml"); }

Arguments read_document(const std::string& text, const std::string& file, std::vector<std::string>& automatic) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool toml = file.ends_with(".toml") || (begin != std::string::npos && text[begin] == '[');
  json document = is_yaml(file) ? parse_yaml(text, file) : toml ? parse_toml(text, file) : parse_json(text, file);
  Arguments out{std::make_shared<json>(std::move(document)), "", false};
  if (!out.values->is_object()) throw ConfigError(Problem{file, "", "", "has no fields", "give the configuration of a framework"});
  take_out_auto(*out.values, "", automatic);
  return out;
}

void join_files(const Arguments& first, const std::string& file, const std::string& other, std::vector<std::string>& automatic) {
  json out = json::object();
  add_plain_names(*first.values, file, out);
  if (!other.empty()) add_plain_names(*read_document(read_text(other), other, automatic).values, other, out);
  *first.values = std::move(out);
}

bool add_configuration(Arguments& arguments, const Table& table, const std::string& file, const ConfigurationPlace& place,
                       std::vector<std::string>& automatic) {
  if (!table.names_file()) return false;
  const std::string said = said_path(arguments, table);
  if (said.empty() && place.given.empty()) return false;
  const std::string path = place.given.empty() ? beside(said, file) : place.given;
  const auto option = table.document->at("configuration").at("option").get<std::string>();
  if (file_state(path).kind == FileKind::absent) {
    if (!place.given.empty()) throw ConfigError(Problem{place.given, "CONFIG", "", "there is no such file", "give the ds_config.json"});
    if (place.may_miss) return false;
    throw ConfigError(Problem{file, table.reads_file() ? option : "--" + option, said, "names a file that is not at " + path,
                              "give it behind " + file + ", or read the options alone with --approximate"});
  }
  (*arguments.values)[table.document->at("configuration").at("as").get<std::string>()] =
      *read_document(read_text(path), path, automatic).values;
  return true;
}

}  // namespace tandem::arguments
