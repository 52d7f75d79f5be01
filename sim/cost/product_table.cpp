#include "sim/cost/product_table.hpp"

#include <algorithm>
#include <mutex>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"
#include "topology/preset.hpp"

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

/// By type whose products were measured both ways: the mean ratio of the time in steady load to the short one. Ratios below 1 are
/// noise and count as 1: a card has no higher clocks in steady load.
std::map<DType, double> steady_by_short(const CostTable& table) {
  struct Ratios {
    double sum = 0;
    int n = 0;
  };
  std::map<DType, Ratios> ratios;
  for (const CostSample& s : table.samples) {
    if (s.sustained_s <= 0 || s.seconds <= 0 || !product_shape(s.op)) continue;
    Ratios& of = ratios[s.dtype];
    of.sum += std::max(1.0, s.sustained_s / s.seconds);
    ++of.n;
  }
  std::map<DType, double> out;
  for (const auto& [type, of] : ratios) out[type] = of.sum / of.n;
  return out;
}

/// Whether a device has the preset's rates and compute units, whatever its name.
bool copies(const Device& device, const Device& preset) {
  return device.peak == preset.peak && device.vector_rate == preset.vector_rate &&
         device.memory_bandwidth == preset.memory_bandwidth && device.compute_units == preset.compute_units;
}

/// Throws ConfigError if the table at `path`, measured on `measured`, is of another device than `device`.
void require_same(const std::string& path, const std::string& measured, const Device& device) {
  if (describes(measured, device)) return;
  const std::string shown = device.name.empty() ? "this one" : device.name;
  const bool preset = find_device_preset(measured).has_value();
  throw ConfigError(Problem{path, "device", measured,
                            "these times were measured on another device than " + shown +
                                (preset ? ", which has other rates or compute units" : ""),
                            "name a table of " + (device.preset.empty() ? shown : device.preset) +
                                " in the device's \"measured\", or leave that out"});
}

/// Cache of tables: a sweep asks for the same one a thousand times, and reading takes longer than simulating.
class ProductTableCache {
 public:
  std::shared_ptr<const ProductTable> take(const std::string& path, const std::string& name, const Device& device) {
    const std::optional<std::int64_t> written = written_at(path);  // if there is no file, load_cost_table throws
    const std::lock_guard lock(mutex_);
    Read& read = read_[{path, name}];
    if (!written || !read.table || read.written != written) {
      const CostTable table = load_cost_table(path);
      read = {std::make_shared<const ProductTable>(table, name), table.device, written};
    }
    require_same(path, read.device, device);
    return read.table;
  }

 private:
  struct Read {
    std::shared_ptr<const ProductTable> table;
    std::string device;  ///< the device that it was measured on
    std::optional<std::int64_t> written;
  };
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Read> read_;  ///< by path and name
};

}  // namespace

ProductTable::ProductTable(const CostTable& table, std::string name)
    : name_(std::move(name)),
      device_(table.device),
      card_(fact(table, "card", table.device)),
      date_(table.date),
      source_(fact(table, "source", "tandem measure")) {
  if (const auto preset = find_device_preset(table.device)) memory_ = preset->memory_bandwidth;
  for (const Figure& f : table.figures)
    if (f.name == "power_limit") power_limit_ = f.value;
  const std::map<DType, double> steadiness = steady_by_short(table);
  for (const CostSample& s : table.samples) {
    const auto shape = product_shape(s.op);
    if (!shape) continue;
    const auto known = steadiness.find(s.dtype);
    const double steady = s.sustained_s > 0 ? s.sustained_s : s.seconds * (known == steadiness.end() ? 1 : known->second);
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

bool describes(const std::string& measured, const Device& device) {
  if (measured.empty()) return false;
  if (measured == device.preset) return true;
  const auto preset = find_device_preset(measured);
  if (!preset) return measured == device.name;
  const auto own = find_device_preset(device.preset);
  return copies(own ? *own : device, *preset);
}

std::shared_ptr<const ProductTable> measured_products(const std::string& name, const Device& device) {
  static ProductTableCache cache;
  return cache.take(path_of(name), name.substr(name.rfind('/') + 1), device);
}

}  // namespace tandem::sim
