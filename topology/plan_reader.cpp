#include "topology/plan_reader.hpp"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kClusters = "topology/presets";
constexpr std::string_view kDevices = "topology/presets/devices";

std::string text_at(const json& object, const char* key) {
  const bool there = object.is_object() && object.contains(key) && object[key].is_string();
  return there ? object[key].get<std::string>() : "";
}

/// The device object of a cluster's file, read from its own file if the cluster names one; null if there is none.
json device_in(const std::string& path) {
  const json cluster = read_json(path);
  if (!cluster.is_object() || !cluster.contains("device")) return {};
  if (cluster["device"].is_object()) return cluster["device"];
  const std::string named = text_at(cluster, "device");
  const std::string file = is_preset_path(named) ? beside(named, path) : find_preset(kDevices, named);
  return file.empty() ? json() : read_json(file);
}

/// The generation of the device presets with this calibration; empty if they differ.
std::string calibrated_generation(const std::string& calibration) {
  std::set<std::string> found;
  for (const std::string& name : calibration.empty() ? std::vector<std::string>() : preset_names(kDevices)) {
    const json device = read_json(find_preset(kDevices, name));
    if (text_at(device, "calibration") == calibration) found.insert(text_at(device, "generation"));
  }
  return found.size() == 1 ? *found.begin() : "";
}

std::string generation_in(const std::string& path) {
  const json device = device_in(path);
  const std::string own = text_at(device, "generation");
  return own.empty() ? calibrated_generation(text_at(device, "calibration")) : own;
}

/// Ignores errors: building the cluster reports them.
std::string read_generation(const std::string& path) {
  if (path.empty()) return {};
  try {
    return generation_in(path);
  } catch (const ConfigError&) {
    return {};
  }
}

/// Cached generation of a preset. Presets do not change while a program runs, unless TANDEM_PRESETS does.
const std::string& known_generation(const std::string& preset) {
  thread_local std::map<std::pair<std::string, std::string>, std::string> known;
  const char* own = std::getenv("TANDEM_PRESETS");
  const auto [at, is_new] = known.try_emplace({own == nullptr ? "" : own, preset});
  if (is_new) at->second = read_generation(find_preset(kClusters, preset));
  return at->second;
}

}  // namespace

std::string generation_of(const std::string& cluster) {
  return is_preset_path(cluster) ? read_generation(cluster) : known_generation(cluster);
}

Plan parse_plan(std::string_view text, const std::string& file, const std::optional<StackChoice>& stack) {
  return parse_plan(text, file, PlanContext{generation_of, stack});
}

Plan load_plan(const std::string& path, const std::optional<StackChoice>& stack) {
  return load_plan(path, PlanContext{generation_of, stack});
}

}  // namespace tandem
