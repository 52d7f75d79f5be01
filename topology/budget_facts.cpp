#include "topology/budget_facts.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "topology/fact_reader.hpp"

namespace tandem {
namespace {

using nlohmann::json;

/// Reads a data file with a reader that refuses keys that `read` does not read. Unverified facts are not collected: the file names
/// them.
template <class Read>
void read_file(const std::string& folder, const std::string& name, const Read& read) {
  const std::string path = require_data_file(folder, name);
  const json file = read_json(path);
  std::vector<std::string> unverified;
  FactReader reader(file, path, "", unverified);
  reader.text("describes", "");
  read(reader, file);
  reader.finish();
}

DevicePower device_of(FactReader r) {
  DevicePower out;
  out.busy_w = r.number("busy_w", 0);
  out.idle_w = r.number("idle_w", 0);
  out.host_busy_w = r.number("host_busy_w", 0);
  out.host_idle_w = r.number("host_idle_w", 0);
  if (r.has("lowest_limit_w")) out.lowest_limit_w = r.number("lowest_limit_w", 0);
  r.finish();
  return out;
}

PowerLimitFacts limit_of(FactReader r) {
  PowerLimitFacts out;
  out.clock_exponent = r.number("clock_exponent", 1);
  out.floor_clock = r.number("floor_clock", 0);
  out.lowest_share = r.number("lowest_share", 0);
  r.finish();
  return out;
}

}  // namespace

PowerFacts load_power_facts() {
  PowerFacts out;
  read_file("topology/budget", "power.json", [&](FactReader& r, const json& file) {
    FactReader devices = r.object("devices"), grids = r.object("grids");
    for (const auto& [name, unused] : file.at("devices").items()) out.devices[name] = device_of(devices.object(name));
    for (const auto& [name, unused] : file.at("grids").items()) out.grids[name] = grids.number(name, 0);
    if (r.has("limit")) out.limit = limit_of(r.object("limit"));
    out.pue = r.number("pue", 1);
  });
  return out;
}

FailureFacts load_failure_facts() {
  FailureFacts out;
  read_file("topology/budget", "failures.json", [&](FactReader& r, const json&) {
    out.failures_per_device_day = r.number("failures_per_device_day", 0);
    out.detection_s = r.number("detection_seconds", 0);
    out.restart_s = r.number("restart_seconds", 0);
    out.storage_device_bytes_per_s = r.bandwidth("storage_device_bytes_per_s").bytes_per_second();
  });
  return out;
}

double load_memory_error() {
  double out = 0;
  read_file("topology/errors", "memory.json", [&](FactReader& r, const json&) {
    r.text("computed", "");
    out = r.number("measured_over_predicted", 1) - 1;
  });
  return out;
}

}  // namespace tandem
