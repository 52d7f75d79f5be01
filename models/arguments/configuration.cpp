#include "models/arguments/configuration.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/toml_text.hpp"
#include "models/arguments/yaml_text.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

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

/// The text that an option gives; empty if it gives none.
std::string said_text(const Arguments& arguments, const json& where) {
  const auto said = arguments.values->find(where.at("option").get<std::string>());
  return said != arguments.values->end() && said->is_string() ? said->get<std::string>() : "";
}

/// The option that the user's file is for: the only one that names a file, else the first whose framework has such files.
json meant_by(const json& places, const std::string& path) {
  if (file_state(path).kind == FileKind::absent) throw ConfigError(Problem{path, "CONFIG", "", "there is no such file", "give the file that an option names"});
  std::vector<std::string> automatic;
  const json values = *read_document(read_text(path), path, automatic).values;
  std::vector<std::string> options;
  for (const json& where : places) {
    if (places.size() == 1 || read_table(where.at("framework").get<std::string>()).recognises(values)) return where;
    options.push_back(where.at("option").get<std::string>());
  }
  throw ConfigError(Problem{path, "CONFIG", "", "is no file that " + list_text(options) + " can name", "leave it out"});
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

std::string named_beside(const std::string& name, const std::string& file) {
  const std::string path = beside(name, file), near = beside(name.substr(name.rfind('/') + 1), file);
  const auto is_there = [](const std::string& p) { return file_state(p).kind != FileKind::absent; };
  return !is_there(path) && is_there(near) ? near : path;
}

std::string required_beside(const std::string& name, const std::string& file, const std::string& field) {
  const std::string path = named_beside(name, file);
  if (file_state(path).kind == FileKind::absent)
    throw ConfigError(Problem{file, field, value_text(name), "names a file that is not at " + path, "copy it there"});
  return path;
}

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

void add_groups(json& values, const Table& table, const std::string& file) {
  for (const json& group : table.document->value("groups_in_files", json::array())) {
    const auto name = group.get<std::string>();
    if (!values.contains(name) || !values[name].is_string() || values[name] == "") continue;
    const std::string path = required_beside(values[name].get<std::string>(), file, name);
    std::vector<std::string> automatic;
    values[name] = *read_document(read_text(path), path, automatic).values;
  }
}

std::vector<AddedFile> add_configurations(Arguments& arguments, const Table& table, const std::string& file,
                                          const ConfigurationPlace& place) {
  const json places = table.document->value("configuration", json::array());
  const json meant = place.given.empty() || places.empty() ? json() : meant_by(places, place.given);
  std::vector<AddedFile> out;
  for (const json& where : places) {
    const bool given = where == meant;
    const std::string said = said_text(arguments, where), option = where.at("option").get<std::string>();
    if (said.empty() && !given) continue;
    const std::string path = given ? place.given : named_beside(said, file);
    AddedFile added{where.at("as").get<std::string>(), {}};
    json& values = (*arguments.values)[added.as];
    if (const json known = where.value("known", json::object()); !given && known.contains(said)) {
      values = known[said];
      take_out_auto(values, "", added.automatic);
    } else if (file_state(path).kind != FileKind::absent) {
      values = *read_document(read_text(path), path, added.automatic).values;
    } else if (place.may_miss) {
      arguments.values->erase(added.as);
      continue;
    } else {
      throw ConfigError(Problem{file, table.reads_file() ? option : "--" + option, said, "names a file that is not at " + path,
                                "give it behind " + file + ", or read the options alone with --approximate"});
    }
    out.push_back(std::move(added));
  }
  return out;
}

}  // namespace tandem::arguments
