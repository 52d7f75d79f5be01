#include "topology/price_list.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/budget_facts.hpp"
#include "topology/preset.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

PriceList three_offers() {
  PriceList out;
  out.offers = {{"d", PriceKind::on_demand, "a", "x", {"mine"}, 5, {}, "", "", "", true},
                {"d", PriceKind::on_demand, "b", "y", {}, 2, {}, "", "", "", true},
                {"d", PriceKind::spot, "b", "z", {}, 1, {}, "", "", "", true}};
  return out;
}

}  // namespace

TEST_CASE("shipped prices name devices that are there, an address and a day") {
  const PriceList list = load_price_list();
  CHECK(list.currency == "USD");
  for (const Offer& o : list.offers) {
    INFO(o.instance);
    CHECK(find_device_preset(o.device));
    for (const std::string& cluster : o.clusters) CHECK(load_cluster(cluster).device.preset == o.device);
    CHECK(o.source.starts_with("https://"));
    CHECK(o.date > std::chrono::sys_days(std::chrono::year(2024) / 1 / 1));
    CHECK(o.device_hour < 20);
  }
  for (const char* device : {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "b300-sxm", "gb200", "gaudi2-hl225",
                             "gaudi3-hl325-oam", "neuroncore-v2", "neuroncore-v3-lnc2"})
    CHECK_FALSE(kinds_of(list, device).empty());
}

TEST_CASE("the cheapest offer is taken, but those for the cluster itself come first") {
  const PriceList list = three_offers();
  const std::vector<PriceKind> on_demand = {PriceKind::on_demand};
  CHECK(cheapest(list, {"d", "any", on_demand, ""})->device_hour == 2);
  CHECK(cheapest(list, {"d", "mine", on_demand, ""})->device_hour == 5);
  CHECK(cheapest(list, {"d", "any", on_demand, "a"})->device_hour == 5);
  CHECK(cheapest(list, {"d", "any", {PriceKind::reserved, PriceKind::spot}, ""})->device_hour == 1);
  CHECK(cheapest(list, {"d", "any", {PriceKind::reserved}, ""}) == nullptr);
  CHECK(cheapest(list, {"e", "any", on_demand, ""}) == nullptr);
  CHECK(kinds_of(list, "d") == std::vector<PriceKind>{PriceKind::on_demand, PriceKind::spot});
}

TEST_CASE("a price list that says too little is refused by file and field") {
  const json good = {{"device", "d"}, {"kind", "spot"}, {"provider", "p"}, {"instance", "i"}, {"devices", 8}, {"instance_hour", 4.0},
                     {"date", "2026-11-20"}, {"source", "s"}};
  const auto read = [](const json& offer) {
    tests::TemporaryFolder folder;
    std::filesystem::create_directories(folder.at("topology/budget"));
    folder.file("topology/budget/prices.json", json{{"currency", "USD"}, {"offers", {offer}}}.dump());
    setenv("TANDEM_PRESETS", folder.at("").c_str(), 1);
    std::string told;
    try {
      const PriceList list = load_price_list();
      if (list.offers.size() == 1 && list.offers[0].device_hour == 0.5) told = "read";
    } catch (const ConfigError& e) {
      told = e.problems().front().message();
    }
    unsetenv("TANDEM_PRESETS");
    return told;
  };
  CHECK(read(good) == "read");
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"kind", "cheap"}, {"date", "yesterday"}, {"date", "2026-02-30"}, {"instance_hour", 0}, {"devices", 0}, {"source", ""}}) {
    json bad = good;
    bad[key] = value;
    CHECK(read(bad).find("offers[0]." + key) != std::string::npos);
  }
}

TEST_CASE("shipped facts of power and failures can be read, and devices take more busy than idle") {
  for (const auto& [name, power] : load_power_facts().devices) {
    INFO(name);
    CHECK(find_device_preset(name));
    CHECK(power.busy_w > power.idle_w);
    CHECK(power.host_busy_w > power.host_idle_w);
  }
  // 419 failures of 16,384 devices in 54 days.
  CHECK(load_failure_facts().failures_per_device_day == Approx(419.0 / 16384 / 54).epsilon(1e-4));
  CHECK(load_memory_error() == Approx(0.077));
}
