// Compares the law of matrix products (sim/cost/roofline with a device's calibration) with every measured table.
//
//   bench_products [TABLE.json ...]     all of topology/measured unless tables are given
//
// Errors are (law - measured) / measured of the whole kernel, in %. `measured` is the time under steady load, if the
// table has it. Casts of narrow types are omitted, because no table has them. A table of a card without a preset names
// the preset to compare with ("law"). Measured tables attached to presets are not used: this tests the law alone.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/presets.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/product_table.hpp"
#include "sim/cost/roofline.hpp"

using namespace tandem;

namespace {

struct Row {
  sim::ProductShape shape;
  DType dtype;
  double error;
};

/// A group of products that the law may miss in the same way.
struct Class {
  const char* name;
  std::function<bool(const Row&)> has;
};

double flops(const sim::ProductShape& s) {
  return 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

const std::vector<Class>& classes() {
  static const std::vector<Class> all = {
      {"k below 1024", [](const Row& r) { return r.shape.k < 1024; }},
      {"k of 1024 to 4095", [](const Row& r) { return r.shape.k >= 1024 && r.shape.k < 4096; }},
      {"k from 4096 up", [](const Row& r) { return r.shape.k >= 4096; }},
      {"m or n below 512", [](const Row& r) { return std::min(r.shape.m, r.shape.n) < 512; }},
      {"added to fp32", [](const Row& r) { return r.shape.accumulate && r.shape.total == DType::fp32; }},
      {"added to bf16", [](const Row& r) { return r.shape.accumulate && r.shape.total == DType::bf16; }},
      {"below 0.1 TFLOP", [](const Row& r) { return flops(r.shape) < 1e11; }},
      {"0.1 to 1 TFLOP", [](const Row& r) { return flops(r.shape) >= 1e11 && flops(r.shape) < 1e12; }},
      {"above 1 TFLOP", [](const Row& r) { return flops(r.shape) >= 1e12; }},
  };
  return all;
}

/// The device preset, taken from a cluster that has it.
Device device_named(const std::string& preset) {
  for (const std::string& name : preset_names("topology/presets")) {
    ClusterSpec cluster;
    cluster.preset = name;
    cluster.devices = 1;
    cluster.override.devices_per_node = name.starts_with("trn") ? std::nullopt : std::optional<std::int64_t>(1);
    if (const Device d = make_topology(cluster)->device(); d.preset == preset) return d;
  }
  throw ConfigError(Problem{"", "law", preset, "no cluster has such a device", "name a device of a cluster preset"});
}

std::vector<Row> rows_of(const CostTable& table, const Device& device) {
  sim::Calibration law = sim::load_calibration(device.calibration);
  law.cast_bytes = 0;
  std::vector<Row> out;
  for (const CostSample& s : table.samples) {
    const auto shape = sim::product_shape(s.op);
    if (!shape || device.peak.count(s.dtype) == 0) continue;
    const double measured = s.sustained_s > 0 ? s.sustained_s : s.seconds;
    out.push_back({*shape, s.dtype, sim::roofline_seconds(s.op, s.dtype, device, law) / measured - 1});
  }
  return out;
}

bool further(const Row& a, const Row& b) { return std::abs(a.error) < std::abs(b.error); }

void print_line(const std::string& what, std::vector<Row> rows) {
  if (rows.empty()) return;
  std::sort(rows.begin(), rows.end(), further);
  double bias = 0, mean = 0;
  for (const Row& r : rows) bias += r.error, mean += std::abs(r.error);
  const auto n = static_cast<double>(rows.size());
  const Row& w = rows.back();
  std::printf("  %-32s %5zu %8.1f %8.1f %8.1f %8.1f  %lld x [%lld x %lld x %lld]\n", what.c_str(), rows.size(),
              100 * std::abs(rows[rows.size() / 2].error), 100 * mean / n, 100 * bias / n, 100 * w.error,
              static_cast<long long>(w.shape.batch), static_cast<long long>(w.shape.m),
              static_cast<long long>(w.shape.n), static_cast<long long>(w.shape.k));
}

void print_table(const std::string& path) {
  const CostTable table = load_cost_table(path);
  const auto law = table.facts.find("law");
  const Device device = device_named(law == table.facts.end() ? table.device : law->second);
  const std::vector<Row> rows = rows_of(table, device);
  std::printf("%s: %s beside the law of %s (calibration %s)\n  %-32s %5s %8s %8s %8s %8s  %s\n",
              path.substr(path.rfind('/') + 1).c_str(),
              table.facts.contains("card") ? table.facts.at("card").c_str() : table.device.c_str(),
              device.preset.c_str(), device.calibration.c_str(), "", "n", "median", "mean", "bias", "worst",
              "worst shape");
  std::map<std::string, std::vector<Row>> kinds;
  for (const Row& r : rows) kinds[std::string(name(r.shape.kind)) + ", " + std::string(name(r.dtype))].push_back(r);
  for (const auto& [kind, of_kind] : kinds) print_line(kind, of_kind);
  for (const Class& c : classes()) {
    std::vector<Row> of_class;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_class),
                 [&](const Row& r) { return r.shape.batch == 1 && c.has(r); });
    if (rows.size() >= 10) print_line(c.name, of_class);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  try {
    if (paths.empty())
      for (const std::string& name : preset_names("topology/measured"))
        paths.push_back(find_preset("topology/measured", name));
    for (const std::string& path : paths) print_table(path);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_products: %s\n", e.what());
    return 3;
  }
  return 0;
}
