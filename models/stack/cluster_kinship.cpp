#include "models/stack/cluster_kinship.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kClusters = "topology/presets";
constexpr std::string_view kDevices = "topology/presets/devices";

/// What tells the device of a cluster: its preset's name (empty: it stands in the file, or has a file of its own) and its calibration.
struct Kind {
  std::string device, calibration;
};

std::string text_at(const json& object, const char* key) {
  const bool there = object.is_object() && object.contains(key) && object[key].is_string();
  return there ? object[key].get<std::string>() : "";
}

Kind read_kind(const std::string& path) {
  const json cluster = read_json(path);
  const std::string named = text_at(cluster, "device");
  Kind kind{is_preset_path(named) ? "" : named, text_at(cluster, "calibration")};
  if (!kind.calibration.empty()) return kind;
  const std::string file = is_preset_path(named) ? beside(named, path) : find_preset(kDevices, named);
  kind.calibration = text_at(named.empty() ? cluster.value("device", json()) : read_json(file), "calibration");
  return kind;
}

Kind kind_of_file(const std::string& path) {
  try {
    return read_kind(path);
  } catch (const ConfigError&) {
    return {};
  } catch (const json::exception&) {
    return {};
  }
}

/// What presets have: read once, while they are looked for in the same places. A file of one's own is read each time.
class Presets {
 public:
  const Kind& kind(const std::string& name) {
    const auto [at, is_new] = kinds_.try_emplace(name);
    if (is_new)
      if (const std::string path = find_preset(kClusters, name); !path.empty()) at->second = kind_of_file(path);
    return at->second;
  }

  /// Most clusters are presets themselves: their device is among those that are known, and no other file need be read.
  bool have_device(const std::string& device) {
    if (device.empty()) return false;
    if (std::any_of(kinds_.begin(), kinds_.end(), [&](const auto& known) { return known.second.device == device; })) return true;
    const std::vector<std::string> names = preset_names(kClusters);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return kind(name).device == device; });
  }

 private:
  std::map<std::string, Kind> kinds_;
};

Presets& presets() {
  thread_local std::map<std::string, Presets> by_place;
  const char* own = std::getenv("TANDEM_PRESETS");
  return by_place[own == nullptr ? "" : own];
}

Kind kind_of(const std::string& cluster) { return is_preset_path(cluster) ? kind_of_file(cluster) : presets().kind(cluster); }

}  // namespace

std::string counts_as(const std::string& cluster, const json& named) {
  if (!named.is_array() || std::find(named.begin(), named.end(), cluster) != named.end()) return cluster;
  const Kind own = kind_of(cluster);
  const std::string Kind::*same = presets().have_device(own.device) ? &Kind::device : &Kind::calibration;
  if ((own.*same).empty()) return cluster;
  for (const json& name : named)
    if (name.is_string() && presets().kind(name.get<std::string>()).*same == own.*same) return name;
  return cluster;
}

}  // namespace tandem
