#include "experiments/tandem/planning/conditions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::planning {
namespace {

constexpr double kHoursPerDay = 24;

std::vector<PriceKind> wanted_kinds(const PriceChoice& choice) {
  std::vector<PriceKind> out;
  if (choice.kinds.empty()) return {PriceKind::on_demand};
  for (const std::string& text : choice.kinds) {
    const auto kind = price_kind(text);
    if (!kind)
      throw ConfigError(
          Problem{"--price-kind", "", '"' + shortened(text) + '"', "is no kind of price", "there are " + list_text(price_kinds())});
    out.push_back(*kind);
  }
  return out;
}

/// Whether a price's cluster is this plan's. Of files the name decides, as plans may be read from another folder.
bool is_priced(const std::string& key, const std::string& preset) {
  if (!is_preset_path(key) || !is_preset_path(preset)) return key == preset;
  return std::filesystem::path(key).filename() == std::filesystem::path(preset).filename();
}

std::optional<PriceCondition> price_of(const PriceChoice& choice, const Facts& facts, const Assessment& a) {
  const std::vector<PriceKind> kinds = wanted_kinds(choice);
  for (const auto& [cluster, price] : choice.device_hour)
    if (is_priced(cluster, a.plan.cluster.preset)) return PriceCondition{price, "", nullptr};
  if (const auto own = choice.device_hour.find(""); own != choice.device_hour.end()) return PriceCondition{own->second, "", nullptr};
  const Offer* offer = cheapest(facts.prices, {a.topology->device().preset, a.plan.cluster.preset, kinds, choice.provider});
  if (offer == nullptr) return std::nullopt;
  return PriceCondition{offer->device_hour, facts.prices.currency, offer};
}

/// Devices of an accelerator. Published rates of failures and storage are those of a whole one with its share of the host.
double devices_per_accelerator(const Assessment& a) { return static_cast<double>(a.devices_per_chip); }

/// Seconds per save: given, or the checkpoint's bytes divided by the storage's rate.
double save_seconds(const FailureChoice& choice, const Facts& facts, const Assessment& a) {
  if (choice.save_s) return *choice.save_s;
  const double own_rate = facts.failures.storage_device_bytes_per_s * a.devices() / devices_per_accelerator(a);
  return a.checkpoint_bytes() / choice.storage_bytes_per_s.value_or(own_rate);
}

FailureCondition failures_of(const FailureChoice& choice, const Facts& facts, const Assessment& a) {
  FailureCondition out;
  const double own_rate = facts.failures.failures_per_device_day / devices_per_accelerator(a);
  out.per_device_day = choice.mtbf_hours ? kHoursPerDay / *choice.mtbf_hours : choice.per_device_day.value_or(own_rate);
  out.detection_s = choice.detection_s.value_or(facts.failures.detection_s);
  out.restart_s = choice.restart_s.value_or(facts.failures.restart_s);
  (choice.async ? out.durable_s : out.save_s) = save_seconds(choice, facts, a);
  out.interval_s = choice.interval_s;
  out.goodput = choice.goodput;
  out.repair_hours = choice.repair_hours;
  out.spares = choice.spares;
  return out;
}

double carbon_of(const std::string& grid, const Facts& facts) {
  char* end = nullptr;
  const double value = std::strtod(grid.c_str(), &end);
  if (end != grid.c_str() && *end == '\0' && value >= 0 && value <= 100) return value;
  const auto known = facts.power.grids.find(grid);
  if (known != facts.power.grids.end()) return known->second;
  std::vector<std::string> names;
  for (const auto& [name, unused] : facts.power.grids) names.push_back(name);
  throw ConfigError(Problem{"--grid", "", '"' + shortened(grid) + '"', "is neither a grid nor kg of CO2 a kWh from 0 to 100", "give a number, or " + list_text(names, "or")});
}

std::optional<sim::PowerDraw> draw_of(const PowerChoice& choice, const Facts& facts, const Assessment& a) {
  const auto known = facts.power.devices.find(a.topology->device().preset);
  const bool given = choice.busy_w.has_value();
  if (known == facts.power.devices.end() && !given) {
    if (choice.idle_w || choice.host_w)
      throw ConfigError(Problem{"--watts", "", "", "is missing: the watts of " + a.topology->device().name + " are not known", "give it"});
    return std::nullopt;
  }
  // Watts given by the user are a device's whole power, busy or idle, unless other options say more. They count as they are, also
  // under a power limit of the plan.
  DevicePower facts_of = given ? DevicePower{*choice.busy_w, *choice.busy_w, 0, 0} : known->second;
  if (const auto& limit = a.topology->device().power_limit; limit && !given) facts_of.busy_w = std::min(facts_of.busy_w, *limit);
  return sim::PowerDraw{facts_of.busy_w, choice.idle_w.value_or(facts_of.idle_w), choice.host_w.value_or(facts_of.host_busy_w),
                        choice.host_w.value_or(facts_of.host_idle_w)};
}

}  // namespace

Facts load_facts() {
  const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  return {load_price_list(), load_power_facts(), load_failure_facts(), load_memory_error(), sim::load_error_book(), now};
}

sim::ErrorBook errors_of(const Assessment& a, const Facts& facts) {
  sim::ErrorBook out = facts.errors;
  add_own_errors(out, a.topology->device().calibration);
  return out;
}

Conditions conditions_of(const Request& request, const Facts& facts, const Assessment& a, std::size_t phase) {
  Conditions out;
  if (phase < request.phases.size()) out.tokens = request.phases[phase].tokens;
  out.days = request.days;
  out.budget = request.budget;
  if (request.step_s) out.measured_factor = *request.step_s / a.prediction.step_time.seconds();
  out.price = price_of(request.price, facts, a);
  out.failures = failures_of(request.failures, facts, a);
  if (phase > 0 && !out.failures.goodput) out.begin_s = out.failures.restart_s;
  const auto draw = draw_of(request.power, facts, a);
  if (draw) {
    out.power = PowerCondition{*draw, request.power.pue.value_or(facts.power.pue), std::nullopt, request.power.limit_kw};
    if (!request.power.grid.empty()) out.power->carbon_kg_per_kwh = carbon_of(request.power.grid, facts);
  }
  return out;
}

std::string currency_of(const Conditions& c) { return c.price && !c.price->currency.empty() ? " " + c.price->currency : ""; }

void require_price_clusters(const PriceChoice& choice, const std::vector<std::string>& clusters) {
  for (const auto& [cluster, price] : choice.device_hour) {
    if (cluster.empty()) continue;
    if (!is_preset_path(cluster) && find_preset("topology/presets", cluster).empty()) {
      Problem p = unknown_preset("topology/presets", cluster, "cluster preset");
      p.file = "--price";
      throw ConfigError(p);
    }
    if (std::none_of(clusters.begin(), clusters.end(), [&](const std::string& c) { return is_priced(cluster, c); }))
      throw ConfigError(Problem{"--price", cluster, "", "no plan is on this cluster", "they are on " + list_text(clusters)});
  }
}

Problem no_price(const Request& request, const Facts& facts, const Assessment& a) {
  const std::vector<PriceKind> kinds = kinds_of(facts.prices, a.topology->device().preset);
  std::vector<std::string> names;
  for (const PriceKind kind : kinds) names.emplace_back(name(kind));
  const PriceChoice& choice = request.price;
  const std::string asked = (choice.kinds.empty() ? "on_demand" : list_text(choice.kinds, "or")) +
                            (choice.provider.empty() ? "" : " at " + choice.provider);
  return {a.candidate.file, "cluster.preset", '"' + a.plan.cluster.preset + '"',
          "no price is known of " + a.topology->device().name + ", " + asked,
          std::string("give --price") + (names.empty() ? "" : ", or --price-kind " + list_text(names, "or"))};
}

}  // namespace tandem::planning
