#include "experiments/tandem/planning/changes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/network_note.hpp"

namespace tandem::planning {
namespace {

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

/// Appends to a note what it does not say yet.
void tell(std::string& note, const std::string& more) {
  if (note.find(more) == note.npos) note += (note.empty() ? "" : "; ") + more;
}

/// If only one of two plans is a bound. Else empty.
std::string bound_note(const Assessment& before, const Assessment& after) {
  const auto bound = [](const Assessment& a) { return sim::is_bound(*a.topology); };
  if (bound(before) == bound(after)) return "";
  const Assessment& a = bound(after) ? after : before;
  return "figures of " + a.topology->device().name + " are bounds, because it has no calibration";
}

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

Fields fields_of(const std::string& name, const std::string& value, const std::string& flag) {
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
        throw ConfigError(Problem{"", flag, name + "=" + value, "names " + out[i].first + " twice", "give each field once"});
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

Change ChangeMaker::with(const std::string& name, const std::string& value, std::vector<PricedPhase> phases) const {
  for (PricedPhase& p : phases) p.budget = budget_of(p.assessment, p.conditions, facts_);
  const PricedPhase& first = phases.front();
  const std::int64_t tokens = phases.size() > 1 ? 0 : first.assessment.plan.global_batch_tokens();
  Change out{name, value, whole_budget(phases, facts_), tokens, false, "", "", currency_of(first.conditions)};
  for (std::size_t i = 0; i < phases.size() && phases.size() > 1; ++i)
    if (phases[i].budget.memory == MemoryVerdict::too_large) tell(out.note, "phase " + std::to_string(i + 1) + " does not fit");
  return out;
}

Change ChangeMaker::resimulated(const std::string& name, const std::string& value, const std::vector<CandidatePlan>& plans) const {
  const std::size_t count = plans.size();
  std::vector<PricedPhase> phases;
  std::string note, no_price_note;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [before, old, unused] = option_.phases[i];
    PricedPhase& p = phases.emplace_back(PricedPhase{assess(plans[i], request_.choice.stack), {}, {}});
    const Assessment& a = p.assessment;
    if (!a.refusal.empty()) return {name, value, {}, 0, false, "", phase_prefix(i + 1, count) + a.refusal};
    p.conditions = conditions_of(request_, facts_, a, i);
    Conditions& c = p.conditions;
    // A price is of a device: another one has its own, or none that is known.
    const bool same = a.topology->device().name == before.topology->device().name;
    if (!c.price && same) c.price = old.price;
    c.measured_factor = old.measured_factor;  // scales the simulated change to the measured plan
    tell(note, measured_note(before, a));
    if (const std::string limit = sim::network_note(*a.topology); limit != sim::network_note(*before.topology)) tell(note, limit);
    tell(note, bound_note(before, a));
    tell(note, chips_note(before, a));
    if (!c.price && old.price) no_price_note = no_price(request_, facts_, a).reason;
  }
  Change out = with(name, value, std::move(phases));
  out.of_plan = name.find('.') != name.npos;
  tell(no_price_note, note);
  tell(no_price_note, out.note);
  out.note = no_price_note;
  return out;
}

Change ChangeMaker::with_network(const std::string& name, const std::string& value, double factor) const {
  std::vector<CandidatePlan> plans;
  for (const PricedPhase& p : option_.phases) plans.push_back(planning::with_network(p.assessment, factor));
  return resimulated(name, value, plans);
}

Change ChangeMaker::with_fields(const Fields& fields) const {
  std::vector<CandidatePlan> plans;
  std::string kept;
  for (std::size_t i = 0; i < option_.phases.size(); ++i) {
    Fields changes;
    for (const auto& change : fields) {
      if (!sets(request_.phases[i], change.first)) changes.push_back(change);
      else tell(kept, "phase " + std::to_string(i + 1) + " keeps its " + change.first);
    }
    plans.push_back(changed(option_.phases[i].assessment.candidate, changes));
  }
  for (const auto& [field, value] : fields)
    if (all_set(request_.phases, field))
      throw ConfigError(Problem{"", field, value, "has no effect: every phase sets the field itself", "change it in --phase"});
  Change out = resimulated(joined(fields, &Fields::value_type::first), joined(fields, &Fields::value_type::second), plans);
  if (out.refusal.empty()) tell(out.note, kept);
  return out;
}

Change ChangeMaker::of_plan(const std::string& name, const std::string& value) const {
  const Fields fields = fields_of(name, value);
  try {
    return name == "network" ? with_network(name, value, number_of(name, value)) : with_fields(fields);
  } catch (const ConfigError& e) {
    throw ConfigError(of_change(e.problems(), option_.assessment().candidate.file, name + "=" + value));
  }
}

Change ChangeMaker::change(const std::string& given, const std::string& value) const {
  const std::string name = present_name(given);
  if (name == "network" || name.find('.') != name.npos) return of_plan(name, value);
  std::vector<PricedPhase> phases = option_.phases;
  for (PricedPhase& p : phases) {
    if (!set(p.conditions, name, number_of(name, value))) refuse_name(name);
    if (!has_effect(p.conditions, name))
      throw ConfigError(Problem{"--what-if", name, value, "has no effect beside --goodput, which replaces it", "leave out one of them"});
  }
  return with(name, value, std::move(phases));
}

Change ChangeMaker::scaled(const std::string& name, double factor) const {
  if (name == "network") {
    Change out = with_network(name, "x " + four_digits(factor), factor);
    if (!out.refusal.empty()) throw InfeasibleError(Problem{"--tornado", name, out.value, out.refusal, ""});
    return out;
  }
  std::vector<PricedPhase> phases = option_.phases;
  const double shown = value_of(phases.front().conditions, name) * factor;
  for (PricedPhase& p : phases) set(p.conditions, name, value_of(p.conditions, name) * factor);
  return with(name, four_digits(shown), std::move(phases));
}

Sensitivity ChangeMaker::sensitivity(const std::string& name, double low, double high) const {
  return {name, scaled(name, low), scaled(name, high)};
}

std::vector<Sensitivity> ChangeMaker::tornado() const {
  const Ranged& days = option_.budget.days;
  const Conditions& c = option_.conditions();
  std::vector<Sensitivity> out;
  if (!c.measured_factor) out.push_back(sensitivity("step_time", days.low / days.value, days.high / days.value));
  if (c.price) out.push_back(sensitivity("price", 0.9, 1.1));
  for (const char* name : {"failures", "downtime", "save"})
    if (has_effect(c, name) && value_of(c, name) > 0) out.push_back(sensitivity(name, 0.5, 2));
  const auto on_nodes = [](const PricedPhase& p) {
    return p.assessment.plan.cluster.devices > p.assessment.topology->devices_per_node();
  };
  if (std::any_of(option_.phases.begin(), option_.phases.end(), on_nodes)) out.push_back(sensitivity("network", 0.5, 2));
  const bool money = c.price.has_value();
  std::stable_sort(out.begin(), out.end(), [&](const Sensitivity& a, const Sensitivity& b) {
    return money ? a.money_span() > b.money_span() : a.days_span() > b.days_span();
  });
  return out;
}

}  // namespace tandem::planning
