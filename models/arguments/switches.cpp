#include "models/arguments/switches.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// Fields in the first group of a pattern, in all expressions of a table.
std::set<std::string> found(const Table& table, const std::regex& pattern) {
  std::set<std::string> out;
  for (const char* section : {"facts", "plan", "features"}) {
    const std::string text = table.document->at(section).dump();
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) out.insert((*it)[1].str());
  }
  return out;
}

/// Fields that an expression compares with true or false.
std::set<std::string> switches_of(const Table& table) {
  static const std::regex compared("\\$([A-Za-z0-9_.]+) [!=]= (?:true|false)");
  return found(table, compared);
}

/// Fields that have other values than true and false: an expression compares them with a word or gives them to a function.
std::set<std::string> with_words(const Table& table) {
  static const std::regex compared("\\$([A-Za-z0-9_.]+)(?: [!=]= '|,|\\))");
  return found(table, compared);
}

}  // namespace

std::optional<bool> switch_of(const json& value) {
  if (value == 0 || value == 1) return value == 1;
  if (!value.is_string()) return std::nullopt;
  std::string word = value.get<std::string>();
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

void read_switches(const Table& table, json& values, const std::string& file) {
  const std::set<std::string> others = with_words(table);
  std::vector<Problem> problems;
  for (const std::string& name : switches_of(table)) {
    if (!table.reads_file() && !name.starts_with("ds.")) continue;
    std::string path = "/" + name;
    std::replace(path.begin(), path.end(), '.', '/');
    const json::json_pointer place(path);
    if (!values.contains(place)) continue;
    json& value = values[place];
    const bool only = table.document->at("defaults").value(name, json()).is_boolean() && !others.contains(name);
    if (const std::optional<bool> on = switch_of(value)) value = *on;
    else if (only && !value.is_boolean() && !value.is_null())
      problems.push_back({file, name, value_text(value), "is neither true nor false", "write true or false"});
  }
  if (!problems.empty()) throw ConfigError(problems);
}

}  // namespace tandem::arguments
