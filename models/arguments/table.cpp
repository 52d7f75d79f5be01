#include "models/arguments/table.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

std::string with(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

/// Whether the option is named for what it takes away, and its argument for what is there: "--bert-no-binary-head".
bool takes_away(const std::string& option, const std::string& argument) {
  if (option.find("-no-") != std::string::npos && argument.find("_no_") == std::string::npos) return true;
  const auto begins = [](const std::string& text, char dash) {
    return text.starts_with(std::string("no") + dash) || text.starts_with(std::string("disable") + dash);
  };
  return begins(option, '-') && !begins(argument, '_');
}

json options_file(const std::string& framework) {
  return read_json(require_data_file(std::string(kFolder) + "/options", framework + ".json"));
}

json options_of(const std::string& framework) { return options_file(framework).at("options"); }

/// The defaults of all options, by argument.
json defaults_of(const json& options) {
  json out = json::object();
  for (const auto& [option, argument] : options.items()) out[argument[0].get<std::string>()] = argument[1];
  return out;
}

/// Sections that a table takes from its base; an entry of its own takes the place of one there, null removes it.
constexpr const char* kInherited[] = {"renamed", "spellings", "kinds", "defaults", "conditions", "facts", "plan", "features", "ignored", "printed"};

/// Names of the base's arguments in a file of sections: `lr` is `optimizer.lr`. A name that stands in several is that of the first.
std::map<std::string, std::string> moved_names(const json& document, const json& options) {
  std::map<std::string, std::string> out = document.value("moved", std::map<std::string, std::string>());
  for (const json& section : document.value("sections", json::array()))
    for (const auto& [name, argument] : options.items())
      if (const std::string prefix = section.get<std::string>() + "."; name.starts_with(prefix))
        out.emplace(name.substr(prefix.size()), name);
  return out;
}

/// Expressions with their names moved.
void move_names(json& expressions, const std::map<std::string, std::string>& moved) {
  if (expressions.is_structured())
    for (json& inner : expressions) move_names(inner, moved);
  if (!expressions.is_string()) return;
  static const std::regex field("\\$([A-Za-z0-9_.]+)");
  const auto text = expressions.get<std::string>();
  std::string out;
  auto rest = text.begin();
  for (std::sregex_iterator it(text.begin(), text.end(), field), end; it != end; ++it) {
    const auto there = moved.find((*it)[1].str());
    out.append(rest, (*it)[0].first);
    out += there == moved.end() ? it->str() : "$" + there->second;
    rest = (*it)[0].second;
  }
  expressions = out.append(rest, text.end());
}

json with_base(json document, const json& options) {
  if (!document.contains("base")) return document;
  json base = with_base(read_json(find_preset(kFolder, document["base"].get<std::string>())), json::object());
  const std::map<std::string, std::string> moved = moved_names(document, options);
  for (const char* key : kInherited) {
    json merged = base.value(key, json::object());
    if (!moved.empty()) move_names(merged, moved);
    const json own = document.value(key, json::object());
    if (key == std::string_view("defaults")) merged.update(own);  // null is a default
    else merged.merge_patch(own);
    document[key] = std::move(merged);
  }
  for (const char* key : {"stacks", "configuration", "groups_in_files"})  // whole
    if (!document.contains(key) && base.contains(key)) document[key] = base[key];
  return document;
}

/// The files that options name, as a list: a table with one has it alone.
void list_configurations(json& document) {
  if (document.contains("configuration") && document["configuration"].is_object())
    document["configuration"] = json::array({document["configuration"]});
}

/// Adds the defaults and the ignored fields of a file that an option names, as `ds.NAME`.
void add_configuration(const json& where, json& document, json& defaults) {
  const std::string framework = where.at("framework").get<std::string>(), prefix = where.at("as").get<std::string>() + ".";
  const json file = read_json(find_preset(kFolder, framework));
  json there = defaults_of(options_of(framework));
  there.update(file.at("defaults"));
  for (const auto& [name, value] : there.items()) defaults[prefix + name] = value;
  for (const auto& [pattern, why] : file.at("ignored").items()) document["ignored"][prefix + pattern] = why;
}

/// The kinds of all arguments, those of the file that an option names as `ds.NAME`; other names of an argument have its kinds. Fields
/// that the caller of the framework fills in may say "auto".
json kinds_of(const std::string& framework, const json& document) {
  json out = options_file(framework).at("kinds");
  const json own = document.value("kinds", json::object());
  for (const auto& [name, kinds] : own.items())
    if (kinds.empty()) out.erase(name);  // any value may be right
    else out[name] = kinds;
  const json filled = document.value("filled", json::array());
  for (const json& name : filled)
    if (json& kinds = out[name.get<std::string>()]; !kinds.is_null()) kinds.push_back("'auto'");
  const json spellings = document.value("spellings", json::object());
  for (const auto& [name, others] : spellings.items())
    for (const json& other : others)
      if (out.contains(name) && !out.contains(other.get<std::string>())) out[other.get<std::string>()] = json(out[name]);
  for (const json& where : document.value("configuration", json::array())) {
    const auto inner = where.at("framework").get<std::string>();
    const json there = kinds_of(inner, read_json(find_preset(kFolder, inner)));
    for (const auto& [name, kinds] : there.items()) out[where.at("as").get<std::string>() + "." + name] = kinds;
  }
  return out;
}

}  // namespace

bool Table::reads_file() const { return document->contains("recognised_by"); }

bool Table::says_model() const { return document->at("plan").contains("model.num_layers"); }

std::string Table::written_as() const { return document->value("written_as", "json"); }

bool Table::recognises(const json& file) const {
  if (!reads_file() || !file.is_object()) return false;
  const auto has_any = [&](const json& keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const json& key) { return file.contains(key.get<std::string>()); });
  };
  return has_any(document->at("recognised_by")) && !has_any(document->value("not_with", json::array()));
}

bool Table::chosen_by(const json& values) const {
  const json choices = document->value("chosen_by", json::object());
  for (const auto& [name, value] : choices.items()) {
    const json given = values.value(name, json());
    if (!given.is_null() && given != false && (value == "*" || given == value)) return true;
  }
  return false;
}

bool Table::names_file() const { return document->contains("configuration"); }

bool Table::reads_several() const { return document->value("several_files", false); }

std::string Table::follows() const {
  return document->contains("follows") ? document->at("follows").at("table").get<std::string>() : "";
}

bool Table::writes() const { return document->contains("export"); }

ArgumentName Table::argument(const std::string& option) const {
  if (options->contains(option)) {
    const json& entry = (*options)[option];
    const std::string name = entry[0].get<std::string>();
    const bool stands_alone = entry[1].is_boolean() || entry.size() > 2;
    return {name, takes_away(option, name), !stands_alone};
  }
  return {document->at("renamed").value(option, with(option, '-', '_')), false, false};
}

bool Table::has(const std::string& name) const { return document->at("defaults").contains(name); }

std::string Table::nearest_option(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [option, argument] : options->items()) known.push_back(option);
  const std::string meant = nearest(reads_file() ? name : with(name, '_', '-'), known);
  return meant.empty() || reads_file() ? meant : "--" + meant;
}

std::vector<std::string> Table::sources() const { return document->at("source").get<std::vector<std::string>>(); }

bool covers(const std::string& pattern, const std::string& name) {
  if (pattern.size() > 2 && pattern.starts_with('*') && pattern.ends_with('*'))
    return name.find(pattern.substr(1, pattern.size() - 2)) != std::string::npos;
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

Table read_table(const std::string& framework) {
  const std::string path = find_preset(kFolder, framework);
  if (path.empty())
    throw ConfigError(Problem{"", "framework", '"' + shortened(framework) + '"', "has no table of arguments here",
                              "known are " + list_text(known_frameworks())});
  const json options = options_of(framework);
  json document = with_base(read_json(path), options);
  json defaults = defaults_of(options);
  list_configurations(document);
  for (const json& where : document.value("configuration", json::array())) add_configuration(where, document, defaults);
  defaults.update(document.at("defaults"));
  document["defaults"] = std::move(defaults);
  document["kinds"] = kinds_of(framework, document);
  std::string stack = document.at("stack").get<std::string>();
  return {std::move(stack), std::make_shared<const json>(std::move(document)), std::make_shared<const json>(options)};
}

Table read_table(const std::string& framework, const Month& as_of) {
  for (const std::string& name : known_frameworks()) {
    Table table = read_table(name);
    if (table.follows() != framework) continue;
    const std::optional<Month> since = parse_month(table.document->at("follows").at("since").get<std::string>());
    if (since.value() <= as_of) return table;
  }
  return read_table(framework);
}

ArgumentNames named_by(const Table& table) {
  return [&table](const std::string& option) { return table.argument(option); };
}

namespace {

/// Names of a table's options for a text that may be another framework's: no option needs a value.
ArgumentNames without_needs(const Table& table) {
  return [&table](const std::string& option) {
    ArgumentName name = table.argument(option);
    name.needs_value = false;
    return name;
  };
}

}  // namespace

Table table_of_options(std::string_view text, const std::string& file, const std::string& device) {
  std::optional<Table> otherwise;
  for (const std::string& framework : known_frameworks()) {
    Table table = read_table(framework);
    if (table.reads_file()) continue;
    const json devices = table.document->value("chosen_on", json::array());
    if (std::find(devices.begin(), devices.end(), json(device)) != devices.end()) return table;
    if (!table.document->contains("chosen_by")) otherwise = std::move(table);
    else if (table.chosen_by(*read_arguments(text, without_needs(table), file).values)) return table;
  }
  return otherwise.value();
}

std::vector<std::string> known_frameworks() { return preset_names(kFolder); }

}  // namespace tandem::arguments
