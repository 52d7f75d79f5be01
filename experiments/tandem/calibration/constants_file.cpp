#include "experiments/tandem/calibration/constants_file.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem::program {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFolder = "topology/calibration";

std::string path_of(const std::string& device) {
  if (is_preset_path(device)) return device;
  const std::string path = find_preset(kFolder, device);
  if (path.empty()) throw ConfigError(unknown_preset(kFolder, device, "calibration"));
  return path;
}

bool may_be_fitted(const ordered_json& v) { return v.is_object() && v.contains("value") && v.contains("fit"); }

[[noreturn]] void refuse(const std::string& path, const std::string& key, const std::string& reason) {
  throw ConfigError(Problem{path, key, "", reason, "write \"fit\": {\"low\": ..., \"high\": ...} around a number"});
}

/// Calls `found` with dotted key, number and its fact, for each constant below `at` in the order of the file.
template <class Json, class Found>
void walk(Json& at, const std::string& key, const Found& found) {
  const auto below = [&](const std::string& name) { return key.empty() ? name : key + "." + name; };
  if (may_be_fitted(at)) {
    if (!at["value"].is_object()) return found(key, at["value"], at);
    for (auto it = at["value"].begin(); it != at["value"].end(); ++it) found(below(it.key()), it.value(), at);
  } else if (at.is_object()) {
    for (auto it = at.begin(); it != at.end(); ++it) walk(it.value(), below(it.key()), found);
  }
}

Constant constant(const std::string& path, const std::string& key, const ordered_json& value, const ordered_json& fit) {
  if (!value.is_number()) refuse(path, key, "only numbers can be fitted");
  if (!fit.is_object() || !fit.contains("low") || !fit.contains("high") || !fit["low"].is_number() || !fit["high"].is_number())
    refuse(path, key + ".fit", "must say low and high");
  const Constant c{key, value.get<double>(), fit["low"].get<double>(), fit["high"].get<double>()};
  if (!(c.low < c.high) || c.value < c.low || c.value > c.high) refuse(path, key + ".fit", "low <= value <= high does not hold");
  return c;
}

/// Formats like the hand-written files: a fact on one line, other objects with one member per line.
std::string one_line(const ordered_json& v) {
  if (!v.is_structured() || v.empty()) return v.dump();
  std::string out;
  for (auto it = v.begin(); it != v.end(); ++it)
    out += (out.empty() ? "" : ", ") + (v.is_object() ? ordered_json(it.key()).dump() + ": " : "") + one_line(it.value());
  return v.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string pretty(const ordered_json& v, const std::string& margin = "") {
  if (!v.is_object() || v.contains("value")) return one_line(v);
  std::string out;
  for (auto it = v.begin(); it != v.end(); ++it)
    out += std::string(out.empty() ? "\n" : ",\n") + margin + "  " + ordered_json(it.key()).dump() + ": " + pretty(it.value(), margin + "  ");
  return "{" + out + "\n" + margin + "}";
}

void set_origin(ordered_json& fact, const std::string& fitted_on) {
  fact.erase("source");
  fact.erase("verified");
  fact.erase("without");
  fact["fitted_on"] = fitted_on;
  fact.erase("placeholder");
}

}  // namespace

ConstantsFile::ConstantsFile(const std::string& device) : path_(path_of(device)), text_(read_text(path_)) {
  parse_json(text_, path_);  // refuses text that the next lines could not handle
  ordered_json file = ordered_json::parse(text_);
  walk(file, "", [&](const std::string& key, const ordered_json& value, const ordered_json& fact) {
    constants_.push_back(constant(path_, key, value, fact["fit"]));
  });
  if (constants_.empty()) refuse(path_, "", "no number of this calibration may be fitted");
}

std::string ConstantsFile::with(const std::vector<double>& values, const std::string& fitted_on) const {
  require(values.size() == constants_.size(), "one value for each constant");
  ordered_json file = ordered_json::parse(text_);
  std::size_t next = 0;
  walk(file, "", [&](const std::string&, ordered_json& value, ordered_json& fact) {
    const std::size_t i = next++;
    if (values[i] == constants_[i].value) return;
    value = values[i];
    if (!fitted_on.empty()) set_origin(fact, fitted_on);
  });
  return pretty(file) + "\n";
}

std::string ConstantsFile::with_without(const std::map<std::string, std::vector<double>>& values) const {
  ordered_json file = ordered_json::parse(text_);
  walk(file, "", [&](const std::string&, const ordered_json&, ordered_json& fact) { fact.erase("without"); });
  std::size_t next = 0;
  walk(file, "", [&](const std::string& key, const ordered_json&, ordered_json& fact) {
    for (const auto& [sets, list] : values) {
      ordered_json& without = fact["without"][sets];
      (fact["value"].is_object() ? without[key.substr(key.rfind('.') + 1)] : without) = list.at(next);
    }
    ++next;
  });
  return pretty(file) + "\n";
}

}  // namespace tandem::program
