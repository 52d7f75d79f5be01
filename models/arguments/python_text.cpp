#include "models/arguments/python_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::arguments {
namespace {

using nlohmann::json;
using Fields = std::vector<std::pair<std::string, json>>;

std::string place_of(const std::string& name) { return "{" + name + "}"; }

bool names(const std::vector<std::string>& lines, const std::string& name) {
  const auto has = [&](const std::string& line) { return line.find(place_of(name)) != std::string::npos; };
  return std::any_of(lines.begin(), lines.end(), has);
}

/// The line with the values of the fields that it names.
std::string filled(std::string line, const Fields& fields) {
  for (const auto& [name, value] : fields)
    for (std::size_t at = line.find(place_of(name)); at != std::string::npos; at = line.find(place_of(name)))
      line.replace(at, place_of(name).size(), python_value(value));
  return line;
}

}  // namespace

std::string python_value(const json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const json& v : value) out += (out.empty() ? "" : ", ") + python_value(v);
  return "[" + out + "]";
}

std::string python_text(const Fields& fields, const PythonLines& lines) {
  std::string out;
  for (const std::string& line : lines.head) out += line + "\n";
  out += "\n\ndef plan(config):\n";
  for (const std::string& line : lines.first) out += "    " + line + "\n";
  for (const auto& [name, value] : fields)
    if (!names(lines.last, name)) out += "    config." + name + " = " + python_value(value) + "\n";
  for (const std::string& line : lines.last) out += "    " + filled(line, fields) + "\n";
  return out + "    return config\n";
}

}  // namespace tandem::arguments
