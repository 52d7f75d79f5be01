#include "models/arguments/value_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/arguments/argument_text.hpp"
#include "models/arguments/switches.hpp"
#include "models/arguments/unread_arguments.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

bool is_whole(const json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && value == std::floor(value.get<double>());
}

bool is_of(const json& value, const std::string& kind) {
  if (kind == "bool") return value.is_boolean() || switch_of(value).has_value();
  if (kind == "int") return is_whole(value);
  if (kind == "float") return value.is_number();
  if (kind == "list") return value.is_array();
  if (kind == "dict") return value.is_object();
  return value.is_string() && kind == "'" + value.get<std::string>() + "'";
}

bool has_kind(const json& kinds, const std::string& kind) {
  return std::find(kinds.begin(), kinds.end(), json(kind)) != kinds.end();
}

/// Of a field that has one value or several, each of the other kinds.
constexpr const char* kEach = "each";

bool takes(const json& kinds, const json& value) {
  if (value.is_array() && has_kind(kinds, kEach))
    return std::all_of(value.begin(), value.end(), [&](const json& part) { return takes(kinds, part); });
  return std::any_of(kinds.begin(), kinds.end(), [&](const json& kind) { return is_of(value, kind.get<std::string>()); });
}

/// "true or false", "a number", the words: what the kinds are called.
std::string names_of(const json& kinds) {
  std::vector<std::string> out;
  const auto add = [&](const char* kind, const char* name) {
    if (has_kind(kinds, kind)) out.emplace_back(name);
  };
  if (has_kind(kinds, "float")) out.emplace_back("a number");
  else add("int", "a whole number");
  add("bool", "true or false");
  add("list", "a list");
  add("dict", "a group of fields");
  for (const json& kind : kinds)
    if (kind.get_ref<const std::string&>().starts_with('\'')) out.push_back(kind.get<std::string>());
  return list_text(out, "or") + (has_kind(kinds, kEach) ? ", or several" : "");
}

/// The number that a text is; the value itself where it is none, or where texts are right.
json as_number(const json& value, const json& kinds) {
  if (!value.is_string() || takes(kinds, value)) return value;
  const json read = argument_value(value.get<std::string>());
  return read.is_number() ? read : value;
}

Problem other_kind(const std::string& file, const std::string& name, const json& value, const json& kinds) {
  return {file, name, value_text(value), "is no value that the framework takes", "write " + names_of(kinds)};
}

}  // namespace

void require_kinds(const Table& table, json& values, const std::vector<std::string>& automatic, const std::string& file) {
  const json& kinds = table.document->at("kinds");
  std::vector<Problem> problems;
  for (const std::string& name : read_somewhere(table)) {
    const json* there = kinds.contains(name) ? find_dotted(values, name) : nullptr;
    if (there == nullptr || there->is_null()) continue;
    std::string place = "/" + name;
    std::replace(place.begin(), place.end(), '.', '/');
    json& value = values[json::json_pointer(place)];
    value = as_number(value, kinds[name]);
    if (!takes(kinds[name], value)) problems.push_back(other_kind(file, name, value, kinds[name]));
  }
  for (const std::string& name : automatic)
    if (kinds.contains(name) && !has_kind(kinds[name], "'auto'")) problems.push_back(other_kind(file, name, "auto", kinds[name]));
  if (!problems.empty()) throw ConfigError(problems);
}

}  // namespace tandem::arguments
