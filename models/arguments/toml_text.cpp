#include "models/arguments/toml_text.hpp"

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 1
#include <nlohmann/json.hpp>
#include <sstream>
#include <toml++/toml.h>

#include "models/base/error.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json as_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    json out = json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = as_json(value);
    return out;
  }
  if (const auto* array = node.as_array()) {
    json out = json::array();
    for (const toml::node& value : *array) out.push_back(as_json(value));
    return out;
  }
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  std::ostringstream text;
  node.visit([&](const auto& v) { text << v; });
  return text.str();
}

/// Lines of one table, those of tables inside behind it.
void add_table(const ordered_json& table, const std::string& name, std::string& out) {
  std::string lines;
  for (const auto& [key, value] : table.items())
    if (!value.is_object() && !value.is_null()) lines += key + " = " + value.dump() + "\n";
  if (!lines.empty()) out += (out.empty() ? "" : "\n") + (name.empty() ? "" : "[" + name + "]\n") + lines;
  for (const auto& [key, value] : table.items())
    if (value.is_object()) add_table(value, name.empty() ? key : name + "." + key, out);
}

}  // namespace

json parse_toml(const std::string& text, const std::string& file) {
  try {
    return as_json(toml::parse(text, file));
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    throw ConfigError(Problem{file, "line " + std::to_string(at.line) + ", column " + std::to_string(at.column), "",
                              "is no TOML: " + std::string(e.description()), "correct the text"});
  }
}

std::string toml_text(const ordered_json& object) {
  std::string out;
  add_table(object, "", out);
  return out;
}

}  // namespace tandem::arguments
