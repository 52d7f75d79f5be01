#include "models/arguments/switches.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// Fields that an expression compares with true or false.
std::set<std::string> switches_of(const Table& table) {
  static const std::regex compared("\\$([A-Za-z0-9_.]+) [!=]= (?:true|false)");
  std::set<std::string> out;
  for (const char* section : {"facts", "plan", "features"}) {
    const std::string text = table.document->at(section).dump();
    for (std::sregex_iterator it(text.begin(), text.end(), compared), end; it != end; ++it) out.insert((*it)[1].str());
  }
  return out;
}

/// True or false; nothing where the value is neither in any form. The forms of pydantic's `bool`, which DeepSpeed and Axolotl use.
std::optional<bool> switch_of(const json& value) {
  if (value == 0 || value == 1) return value == 1;
  if (!value.is_string()) return std::nullopt;
  std::string word = value.get<std::string>();
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

}  // namespace

void read_switches(const Table& table, json& values) {
  for (const std::string& name : switches_of(table)) {
    if (!table.reads_file() && !name.starts_with("ds.")) continue;
    std::string path = "/" + name;
    std::replace(path.begin(), path.end(), '.', '/');
    const json::json_pointer place(path);
    if (!values.contains(place)) continue;
    if (const std::optional<bool> on = switch_of(values[place])) values[place] = *on;
  }
}

}  // namespace tandem::arguments
