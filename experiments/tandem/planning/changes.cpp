#include "experiments/tandem/planning/changes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/network_note.hpp"

namespace tandem::planning {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

/// Inputs that may be left out of a training altogether.
bool may_be_zero(const std::string& name) { return name == "failures" || name == "downtime" || name == "save"; }

/// The present name of a change. `downtime` was once called "restart", although --restart leaves out the detection.
std::string present_name(const std::string& name) { return name == "restart" ? "downtime" : name; }

double number_of(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool number = end != text.c_str() && *end == '\0' && std::isfinite(value);
  if (number && (value > 0 || (value == 0 && may_be_zero(name)))) return value;
  if (text.find(',') != text.npos)
    throw ConfigError(Problem{"--what-if", name, text, "is one number: only plan fields change together", "give --what-if again for each change"});
  throw ConfigError(Problem{"--what-if", name, text, may_be_zero(name) ? "must be a number, 0 or more" : "must be a number above zero", ""});
}

/// True if a text begins with a plan field and "=", like "parallel.tensor=2".
bool begins_field(const std::string& text) {
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789.");
  return end != text.npos && text[end] == '=' && text.substr(0, end).find('.') != text.npos;
}

std::string joined(const Fields& fields, std::string Fields::value_type::*part) {
  std::string out;
  for (const auto& field : fields) out += (out.empty() ? "" : ", ") + field.*part;
  return out;
}

CandidatePlan with_fields(CandidatePlan plan, const Fields& fields) {
  for (const auto& [field, value] : fields) plan = changed(plan, field, value);
  return plan;
}

/// The problems of a changed plan, which are the change's fault and not that of the plan's file.
std::vector<Problem> of_change(std::vector<Problem> problems, const std::string& file, const std::string& change) {
  for (Problem& p : problems)
    if (p.file == file || p.file.empty()) p.file = "--what-if " + change;
  return problems;
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, unused] : change_names()) names.push_back(known);
  throw ConfigError(Problem{"--what-if", name, "", "is no known change", "there are " + list_text(names) + ", and all plan fields such as parallel.tensor"});
}

/// Sets a condition by name. Returns false if the name is unknown. A price that is not known becomes the given one.
bool set(Conditions& c, const std::string& name, double value) {
  if (name == "failures") c.failures.per_device_day = value;
  else if (name == "downtime") c.failures.detection_s = 0, c.failures.restart_s = value;
  else if (name == "save") (c.failures.durable_s > 0 ? c.failures.durable_s : c.failures.save_s) = value;
  else if (name == "price") c.price = PriceCondition{value, c.price ? c.price->currency : "", c.price ? c.price->offer : nullptr};
  else if (name == "step_time") c.step_factor *= value;
  else return false;
  return true;
}

/// Whether a condition changes a budget. A given goodput takes the place of failures, restarts and saves, but not of nodes in repair.
bool has_effect(const Conditions& c, const std::string& name) {
  const bool replaced = name == "downtime" || name == "save" || (name == "failures" && c.failures.repair_hours == 0);
  return !c.failures.goodput || !replaced;
}

/// The present value of a condition; 0 if the option lacks it.
double value_of(const Conditions& c, const std::string& name) {
  if (name == "failures") return c.failures.per_device_day;
  if (name == "downtime") return c.failures.detection_s + c.failures.restart_s;
  if (name == "save") return c.failures.save_s + c.failures.durable_s;
  if (name == "price") return c.price ? c.price->device_hour : 0;
  return 1;
}

/// Appends to a note.
void tell(std::string& note, const std::string& more) { note += (note.empty() || more.empty() ? "" : "; ") + more; }

/// Compares the numbers of chips if a device is another part of its chip than before. Else empty.
std::string chips_note(const Assessment& before, const Assessment& after) {
  if (before.devices_per_chip == after.devices_per_chip) return "";
  const auto chips = [](const Assessment& a) {
    const ClusterSpec& c = a.plan.cluster;
    return count_text(c.devices) + " devices of " + c.preset + " are " + count_text((c.devices + a.devices_per_chip - 1) / a.devices_per_chip) + " chips";
  };
  return chips(after) + ", " + chips(before) + ": cluster.devices changes their number";
}

/// Four significant digits, without zeros at the end.
std::string four_digits(double value) {
  const int decimals = value > 0 ? std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 12) : 0;
  std::string text = number_text(value, decimals);
  if (text.find('.') != text.npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> fields_of(const std::string& name, const std::string& value) {
  Fields out{{name, ""}};
  for (std::size_t begin = 0; begin <= value.size();) {
    std::size_t end = value.find(',', begin);
    while (end != value.npos && !begins_field(value.substr(end + 1))) end = value.find(',', end + 1);
    out.back().second = value.substr(begin, end - begin);
    if (end == value.npos) break;
    begin = value.find('=', end) + 1;
    out.emplace_back(value.substr(end + 1, begin - end - 2), "");
  }
  for (std::size_t i = 1; i < out.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (out[i].first == out[j].first)
        throw ConfigError(Problem{"", "--what-if", name + "=" + value, "names " + out[i].first + " twice", "give each field once"});
  return out;
}

std::vector<std::string> changed_clusters(const Request& request) {
  std::vector<std::string> out;
  for (const auto& [name, value] : request.what_if)
    for (const auto& [field, of] : fields_of(name, value))
      if (field == "cluster.preset") out.push_back(of);
  return out;
}

std::vector<std::pair<std::string, std::string>> change_names() {
  return {{"network", "factor on the rate of the NICs"},
          {"failures", "of a device in a day"},
          {"downtime", "seconds from a failure to the next step: --detection and --restart"},
          {"save", "seconds of a checkpoint"},
          {"price", "of a device hour"},
          {"step_time", "factor on the step time"}};
}

Change ChangeMaker::with(const std::string& name, const std::string& value, const Conditions& conditions) const {
  const std::int64_t tokens = option_.assessment.plan.global_batch_tokens();
  return {name, value, budget_of(option_.assessment, conditions, facts_), tokens, false, "", "", currency_of(conditions)};
}

Change ChangeMaker::resimulated(const std::string& name, const std::string& value, const CandidatePlan& plan) const {
  const Assessment a = assess(plan, request_.choice.stack);
  if (!a.refusal.empty()) return {name, value, {}, 0, false, "", a.refusal};
  Conditions c = conditions_of(request_, facts_, a);
  // A price is of a device: another one has its own, or none that is known.
  const bool same = a.topology->device().name == option_.assessment.topology->device().name;
  if (!c.price && same) c.price = option_.conditions.price;
  c.measured_factor = option_.conditions.measured_factor;  // scales the simulated change to the measured plan
  std::string note = measured_note(option_.assessment, a);
  if (const std::string limit = sim::network_note(*a.topology); limit != sim::network_note(*option_.assessment.topology))
    tell(note, limit);
  tell(note, chips_note(option_.assessment, a));
  if (!c.price && option_.conditions.price) note = no_price(request_, facts_, a).reason + (note.empty() ? "" : "; " + note);
  const bool of_plan = name.find('.') != name.npos;
  return {name, value, budget_of(a, c, facts_), a.plan.global_batch_tokens(), of_plan, std::move(note), "", currency_of(c)};
}

Change ChangeMaker::of_plan(const std::string& name, const std::string& value) const {
  const CandidatePlan& plan = option_.assessment.candidate;
  const Fields fields = fields_of(name, value);
  try {
    if (name == "network") return resimulated(name, value, with_network(option_.assessment, number_of(name, value)));
    const std::string names = joined(fields, &Fields::value_type::first), values = joined(fields, &Fields::value_type::second);
    return resimulated(names, values, with_fields(plan, fields));
  } catch (const ConfigError& e) {
    throw ConfigError(of_change(e.problems(), plan.file, name + "=" + value));
  }
}

Change ChangeMaker::change(const std::string& given, const std::string& value) const {
  const std::string name = present_name(given);
  if (name == "network" || name.find('.') != name.npos) return of_plan(name, value);
  Conditions c = option_.conditions;
  if (!set(c, name, number_of(name, value))) refuse_name(name);
  if (!has_effect(c, name))
    throw ConfigError(Problem{"--what-if", name, value, "has no effect beside --goodput, which replaces it", "leave out one of them"});
  return with(name, value, c);
}

Change ChangeMaker::scaled(const std::string& name, double factor) const {
  if (name == "network") {
    Change out = resimulated(name, "x " + four_digits(factor), with_network(option_.assessment, factor));
    if (!out.refusal.empty()) throw InfeasibleError(Problem{"--tornado", name, out.value, out.refusal, ""});
    return out;
  }
  Conditions c = option_.conditions;
  const double value = value_of(c, name) * factor;
  set(c, name, value);
  return with(name, four_digits(value), c);
}

Sensitivity ChangeMaker::sensitivity(const std::string& name, double low, double high) const {
  return {name, scaled(name, low), scaled(name, high)};
}

std::vector<Sensitivity> ChangeMaker::tornado() const {
  const StepRange& range = option_.assessment.prediction.range;
  const double step = option_.assessment.prediction.step_time.seconds();
  const Conditions& c = option_.conditions;
  std::vector<Sensitivity> out;
  if (!c.measured_factor) out.push_back(sensitivity("step_time", range.low_s / step, range.high_s / step));
  if (c.price) out.push_back(sensitivity("price", 0.9, 1.1));
  for (const char* name : {"failures", "downtime", "save"})
    if (has_effect(c, name) && value_of(c, name) > 0) out.push_back(sensitivity(name, 0.5, 2));
  const Assessment& a = option_.assessment;
  if (a.plan.cluster.devices > a.topology->devices_per_node()) out.push_back(sensitivity("network", 0.5, 2));
  const bool money = c.price.has_value();
  std::stable_sort(out.begin(), out.end(), [&](const Sensitivity& a, const Sensitivity& b) {
    return money ? a.money_span() > b.money_span() : a.days_span() > b.days_span();
  });
  return out;
}

}  // namespace tandem::planning
