#include "topology/power_limit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "models/base/error.hpp"
#include "topology/budget_facts.hpp"

namespace tandem {
namespace {

std::string watts_text(double watts) {
  char text[32];
  std::snprintf(text, sizeof text, "%g W", watts);
  return text;
}

[[noreturn]] void refuse(double watts, const std::string& reason, const std::string& remedy) {
  throw InfeasibleError(Problem{"", "cluster.override.power_limit_watts", watts_text(watts), reason, remedy});
}

}  // namespace

double PowerCurve::clock(double watts) const {
  const double dynamic = (watts - idle_w) / (rated_w - idle_w), knee = std::pow(floor, exponent);
  const double clock = dynamic >= knee ? std::pow(dynamic, 1 / exponent) : dynamic * floor / knee;
  return std::min(1.0, clock);
}

std::optional<PowerCurve> power_curve(const std::string& preset) {
  const PowerFacts facts = load_power_facts();
  const auto known = facts.devices.find(preset);
  if (known == facts.devices.end() || !facts.limit) return std::nullopt;
  const DevicePower& d = known->second;
  const double lowest = d.lowest_limit_w.value_or(facts.limit->lowest_share * d.busy_w);
  return PowerCurve{d.busy_w, d.idle_w, lowest, facts.limit->clock_exponent, facts.limit->floor_clock};
}

void set_power_limit(double watts, Device& device) {
  const auto curve = power_curve(device.preset);
  if (!curve) refuse(watts, "no rated power of " + device.name + " is known", "leave it out, or name a device preset of topology/budget/power.json");
  if (watts > curve->rated_w) refuse(watts, device.name + " is rated at " + watts_text(curve->rated_w), "use at most that");
  if (watts < curve->lowest_w)
    refuse(watts, "the lowest limit of " + device.name + " is " + watts_text(curve->lowest_w), "use at least that");
  device.power_limit = watts;
  device.clock = curve->clock(watts);
}

std::string power_note(const Device& device) {
  const auto curve = device.clock < 1 ? power_curve(device.preset) : std::nullopt;
  if (!curve) return "";
  char clock[16];
  std::snprintf(clock, sizeof clock, "%.3f", device.clock);
  return "cluster.override.power_limit_watts: " + watts_text(*device.power_limit) + " of " + watts_text(curve->rated_w) +
         ": arithmetic runs at " + clock + " of its clock, by one law for all devices (topology/budget/power.json); memory, links and launches keep their rates";
}

}  // namespace tandem
