#include "topology/fact_list.hpp"

#include <cctype>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "topology/fact_reader.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kLongest = 90;  // characters of a value that are shown

/// Path of a preset, or of a file that is named relative to `file`.
std::string path_of(const std::string& folder, const std::string& name, const std::string& what, const std::string& file = "") {
  if (is_preset_path(name)) return beside(name, file);
  const std::string path = find_preset(folder, name);
  if (path.empty()) throw ConfigError(unknown_preset(folder, name, what));
  return path;
}

std::vector<std::string> sources_of(const json& fact) {
  if (!fact.is_object() || !fact.contains("source")) return {};
  if (fact["source"].is_string()) return {fact["source"].get<std::string>()};
  return fact["source"].get<std::vector<std::string>>();
}

std::string sources_text(const json& fact) {
  const std::vector<std::string> ids = sources_of(fact);
  return ids.empty() ? "no source given" : list_text(ids, "and");
}

std::string origin_of(const json& fact) {
  if (!fact.is_object()) return "no source given";
  const bool placeholder = fact.contains("placeholder") && fact["placeholder"] == true;
  if (fact.contains("fitted_on")) return (placeholder ? "not verified: placeholder, " : "fitted on ") + fact["fitted_on"].get<std::string>();
  if (!fact.contains("verified")) return "no source given";
  return (fact["verified"] == true ? "verified: " : "not verified: ") + sources_text(fact);
}

/// Whether a text is a number with its unit: "3.35 TB/s". Names and notes are excluded: they may begin with a digit, too.
bool is_quantity(const json& at, const std::string& field) {
  const std::string key = field.substr(field.rfind('.') + 1);
  if (!at.is_string() || key == "name" || key == "notes" || key == "note") return false;
  const auto& text = at.get_ref<const std::string&>();
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

/// Collects the facts below `at`. Facts are objects with a value, or bare numbers; other objects hold facts; other texts and flags
/// are none.
void collect(const json& at, const std::string& field, const FactOrigin& place, std::vector<FactOrigin>& out) {
  const bool fact = at.is_object() && at.contains("value");
  if (at.is_object() && !fact) {
    for (const auto& [key, value] : at.items()) collect(value, field.empty() ? key : field + "." + key, place, out);
    return;
  }
  if ((at.is_string() && !is_quantity(at, field)) || at.is_boolean()) return;
  FactOrigin found = place;
  found.field = field;
  found.value = value_text(fact ? at["value"] : at, kLongest);
  found.origin = origin_of(at);
  found.sources = sources_of(at);
  out.push_back(std::move(found));
}

/// A part of a cluster and the file that contains it.
struct Part {
  nlohmann::json json;
  std::string file;
};

class Reader {
 public:
  /// A part is an object inside `parent`, or the name or path of a file of its own.
  Part part(const json& parent, const std::string& parent_path, const std::string& key) {
    const json& at = parent.at(key);
    const std::string path = at.is_string() ? path_of("topology/presets/" + key + "s", at, key + " preset", parent_path) : parent_path;
    Part found{at.is_string() ? read_json(path) : at, path};
    collect(found.json, at.is_string() ? "" : key, {key, told_file(path), "", "", ""}, facts);
    return found;
  }
  void whole(const json& file, const std::string& path, const std::string& part) {
    collect(file, "", {part, told_file(path), "", "", ""}, facts);
  }
  std::vector<FactOrigin> facts;
};

}  // namespace

std::vector<FactOrigin> facts_of(const std::string& cluster_preset) {
  const std::string path = path_of("topology/presets", cluster_preset, "cluster preset");
  const json cluster = read_json(path);
  Reader reader;
  reader.part(cluster, path, "node");
  const Part device = reader.part(cluster, path, "device");
  json rest = cluster;
  rest.erase("node");
  rest.erase("device");
  reader.whole(rest, path, "cluster");
  const std::string calibration = cluster.value("calibration", device.json.value("calibration", ""));
  if (calibration.empty()) return reader.facts;
  const std::string file =
      path_of("topology/calibration", calibration, "calibration", cluster.contains("calibration") ? path : device.file);
  reader.whole(read_json(file), file, "calibration");
  return reader.facts;
}

std::vector<FactOrigin> power_facts_of(const std::string& device_preset) {
  const std::string path = require_data_file("topology/budget", "power.json");
  const json file = read_json(path);
  if (!file.at("devices").contains(device_preset)) return {};
  Reader reader;
  json watts = file.at("devices").at(device_preset);
  watts.erase("host_busy_w");
  watts.erase("host_idle_w");
  reader.whole({{"devices", {{device_preset, watts}}}, {"limit", file.value("limit", json::object())}}, path, "power");
  return reader.facts;
}

std::string source_text(const std::string& id) {
  const json texts = read_json(require_data_file("topology", "sources.json"));
  return texts.contains(id) && texts[id].is_string() ? texts[id].get<std::string>() : "";
}

}  // namespace tandem
