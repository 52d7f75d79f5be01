#include "models/arguments/table.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

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

/// Whether the option is named for what it takes away, and its argument for what is there.
bool takes_away(const std::string& option, const std::string& argument) {
  const auto begins = [](const std::string& text, char dash) {
    return text.starts_with(std::string("no") + dash) || text.starts_with(std::string("disable") + dash);
  };
  return begins(option, '-') && !begins(argument, '_');
}

}  // namespace

bool Table::reads_json() const { return document->contains("recognised_by"); }

bool Table::recognises(const json& file) const {
  if (!reads_json() || !file.is_object()) return false;
  const json& keys = document->at("recognised_by");
  return std::any_of(keys.begin(), keys.end(), [&](const json& key) { return file.contains(key.get<std::string>()); });
}

ArgumentName Table::argument(const std::string& option) const {
  if (options->contains(option)) {
    const std::string name = (*options)[option][0].get<std::string>();
    return {name, takes_away(option, name)};
  }
  return {document->at("renamed").value(option, with(option, '-', '_')), false};
}

bool Table::has(const std::string& name) const { return document->at("defaults").contains(name); }

std::string Table::nearest_option(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [option, argument] : options->items()) known.push_back(option);
  const std::string meant = nearest(reads_json() ? name : with(name, '_', '-'), known);
  return meant.empty() || reads_json() ? meant : "--" + meant;
}

std::vector<std::string> Table::sources() const { return document->at("source").get<std::vector<std::string>>(); }

bool covers(const std::string& pattern, const std::string& name) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

Table read_table(const std::string& framework) {
  const std::string path = find_preset(kFolder, framework);
  if (path.empty())
    throw ConfigError(Problem{"", "framework", '"' + shortened(framework) + '"', "has no table of arguments here",
                              "known are " + list_text(known_frameworks())});
  json document = read_json(path), options = read_json(require_data_file(std::string(kFolder) + "/options", framework + ".json")).at("options");
  json defaults = json::object();
  for (const auto& [option, argument] : options.items()) defaults[argument[0].get<std::string>()] = argument[1];
  defaults.update(document.at("defaults"));
  document["defaults"] = std::move(defaults);
  std::string stack = document.at("stack").get<std::string>();
  return {std::move(stack), std::make_shared<const json>(std::move(document)), std::make_shared<const json>(std::move(options))};
}

std::vector<std::string> known_frameworks() { return preset_names(kFolder); }

}  // namespace tandem::arguments
