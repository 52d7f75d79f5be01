#include "sim/product_table.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/presets.hpp"

namespace tandem::sim {
namespace {

constexpr std::string_view kFolder = "topology/measured";

std::string fact(const CostTable& table, const std::string& key, const std::string& otherwise) {
  const auto found = table.facts.find(key);
  return found == table.facts.end() ? otherwise : found->second;
}

std::string path_of(const std::string& name) {
  if (is_preset_path(name)) return name;
  const std::string path = find_preset(kFolder, name);
  if (!path.empty()) return path;
  Problem p = unknown_preset(kFolder, name, "measured table");
  p.field = "measured";
  throw ConfigError(p);
}

}  // namespace

ProductTable::ProductTable(const CostTable& table, std::string name)
    : name_(std::move(name)),
      card_(fact(table, "card", table.device)),
      date_(table.date),
      source_(fact(table, "source", "tandem measure")) {
  for (const CostSample& s : table.samples) {
    const auto shape = product_shape(s.op);
    if (!shape) continue;
    const double steady = s.sustained_s > 0 ? s.sustained_s : s.seconds;
    const auto [at, added] = seconds_.try_emplace({s.dtype, *shape}, steady);
    if (!added) at->second = std::min(at->second, steady);
  }
}

std::optional<double> ProductTable::seconds(const Op& op, DType dtype) const {
  const auto shape = product_shape(op);
  if (!shape) return std::nullopt;
  const auto found = seconds_.find({dtype, *shape});
  return found == seconds_.end() ? std::nullopt : std::optional(found->second);
}

bool describes(const CostTable& table, const Device& device) {
  return !table.device.empty() && (table.device == device.preset || table.device == device.name);
}

CostTable load_measured_products(const std::string& name, const Device& device) {
  const std::string path = path_of(name);
  CostTable table = load_cost_table(path);
  if (describes(table, device)) return table;
  throw ConfigError(Problem{path, "device", table.device,
                            "these times were measured on another device than " + device.name,
                            "name a table of " + (device.preset.empty() ? device.name : device.preset) +
                                " in the device's \"measured\", or leave that out"});
}

}  // namespace tandem::sim
