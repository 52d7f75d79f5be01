#include "experiments/tandem/planning/answer.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/planning/changes.hpp"
#include "experiments/tandem/planning/overlaps.hpp"
#include "models/base/text.hpp"
#include "models/base/threads.hpp"
#include "reports/prediction/text.hpp"
#include "sim/cost/cost_model.hpp"

namespace tandem::planning {
namespace {

constexpr int kOldDays = 90;
constexpr std::size_t kShownNotes = 8;

/// A measured step time holds for one plan only.
void require_one_plan(const Request& request, std::size_t plans) {
  if (request.step_s && plans > 1)
    throw ConfigError(Problem{"--step-time", "", number_text(*request.step_s, 3), "is of one plan, and " + std::to_string(plans) + " are compared",
                              "give the plan that was measured, and --what-if for changes of it"});
}

/// The clusters of all plans and of their changes, each once.
std::vector<std::string> clusters_of(const Request& request, const std::vector<CandidatePlan>& plans) {
  const nlohmann::json::json_pointer preset("/cluster/preset");
  std::vector<std::string> out;
  const auto add = [&](const std::string& cluster) {
    if (std::find(out.begin(), out.end(), cluster) == out.end()) out.push_back(cluster);
  };
  for (const CandidatePlan& plan : plans) {
    const auto document = nlohmann::json::parse(plan.text);
    if (document.contains(preset) && document[preset].is_string()) add(document[preset]);
  }
  for (const std::string& cluster : changed_clusters(request)) add(cluster);
  return out;
}

std::vector<Assessment> assessments(const Request& request) {
  const std::vector<CandidatePlan> plans = candidates(request.choice);
  require_price_clusters(request.price, clusters_of(request, plans));
  require_one_plan(request, plans.size());
  std::vector<Assessment> out(plans.size());
  const auto work = [&](std::size_t i) { out[i] = assess(plans[i], request.choice.stack); };
  for_each_index(plans.size(), program::interruptible(request.jobs), work);
  return out;
}

Option option_of(const Request& request, const Facts& facts, Assessment assessment) {
  Option out{std::move(assessment), {}, {}};
  out.conditions = conditions_of(request, facts, out.assessment);
  out.budget = budget_of(out.assessment, out.conditions, facts);
  return out;
}

/// Where prices are asked for, or money is limited and the best plan has none: refuses all devices without a price at once.
void require_prices(const Request& request, const Facts& facts, const Answer& out) {
  if (!asks_for_price(request) && (!request.budget || out.best()->conditions.price)) return;
  std::vector<Problem> problems;
  for (const auto* list : {&out.options, &out.too_large})
    for (const Option& o : *list) {
      if (o.conditions.price) continue;
      Problem p = no_price(request, facts, o.assessment);
      const auto known = [&](const Problem& other) { return other.value == p.value; };
      if (std::none_of(problems.begin(), problems.end(), known)) problems.push_back(std::move(p));
    }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

/// Without prices the days of all rented devices, which money is in proportion to.
double merit(const Option& o) { return o.budget.money ? o.budget.money->value : o.budget.days.value * o.budget.rented.paid(); }

/// Order: in time and within the budget first, then in time, then those with a price, then the cheapest; late plans by speed.
bool better(const Option& a, const Option& b) {
  if (meets_limits(a) != meets_limits(b)) return meets_limits(a);
  if (in_time(a) != in_time(b)) return in_time(a);
  if (!in_time(a)) return a.budget.days.value < b.budget.days.value;
  if (a.budget.money.has_value() != b.budget.money.has_value()) return a.budget.money.has_value();
  return merit(a) < merit(b);
}

double excess(const Option& o) {
  return static_cast<double>(o.assessment.needed_bytes()) / static_cast<double>(o.assessment.prediction.device_memory.count());
}

std::string unpublished(const Option& o, const Facts& facts) {
  const Topology& topology = *o.assessment.topology;
  const std::string bound = "without a calibration the step time is a bound; " + facts.errors.uncalibrated.reason;
  return "no record on " + topology.device().name + ": " + (sim::range_question(topology, {}).bound ? bound : "its ranges are a wide default");
}

/// Warns if a provider only rents single devices: nodes with their network may be unavailable or cost more.
void warn_of_single_devices(Answer& out) {
  std::set<std::string> clusters;
  for (const Option& o : out.options) {
    const auto& price = o.conditions.price;
    const Topology& topology = *o.assessment.topology;
    const bool nodes = topology.devices_per_node() > 1 && topology.devices() > topology.devices_per_node();
    if (nodes && price && price->offer != nullptr && price->offer->devices == 1)
      clusters.insert(o.assessment.plan.cluster.preset);
  }
  if (clusters.empty()) return;
  const std::vector<std::string> names(clusters.begin(), clusters.end());
  out.warnings.push_back("the price of " + list_text(names) + " is that of single devices: nodes with their network may cost more; --price takes yours");
}

/// What a comparison of devices should know of their calibrations.
void warn_of_calibrations(Answer& out) {
  std::set<std::string> said;
  for (const auto* list : {&out.options, &out.too_large})
    for (const Option& o : *list)
      for (const std::string& note : o.assessment.prediction.notes)
        if (note.starts_with(sim::kCaveat) && said.insert(note).second)
          out.warnings.push_back(o.assessment.topology->device().name + ", " + note);
}

/// Passes on notes about plans that fit, the best plan's first; each once, with the plans that have it.
void warn_of_notes(Answer& out) {
  std::vector<std::pair<std::string, std::vector<const Option*>>> notes;
  const auto collect = [&](const Option& o) {
    for (const std::string& text : o.assessment.notes()) {
      const auto known = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == text; });
      (known == notes.end() ? notes.emplace_back(text, std::vector<const Option*>{}) : *known).second.push_back(&o);
    }
  };
  if (out.options.empty()) collect(*out.best());
  for (const Option& o : out.options) collect(o);
  std::size_t shown = 0;
  for (const auto& [text, of] : notes) {
    if (of.front() != out.best() && shown == kShownNotes) continue;
    const std::string& label = of.front()->assessment.candidate.label;
    const std::string more = of.size() > 1 ? " and " + std::to_string(of.size() - 1) + " more" : "";
    out.warnings.push_back(label.empty() ? text : label + more + ": " + text);
    ++shown;
  }
  if (shown < notes.size())
    out.warnings.push_back(std::to_string(notes.size() - shown) + " more notes are on other plans: --json lists them in options[].notes");
}

/// Says why plans have no money or energy, each reason once.
void warn_of_unknowns(Answer& out, const Request& request, const Facts& facts) {
  std::set<std::string> said;
  const auto warn = [&](const std::string& text) {
    if (said.insert(text).second) out.warnings.push_back(text);
  };
  const auto reasons = [&](const Option& o) {
    if (!o.conditions.price) {
      const Problem problem = no_price(request, facts, o.assessment);
      warn(problem.reason + ": " + problem.remedy);
    }
    if (!o.conditions.power) warn("watts of " + o.assessment.topology->device().name + " are not known: give --watts");
  };
  if (out.options.empty()) reasons(*out.best());
  for (const Option& o : out.options) reasons(o);
}

/// Warns if only some of the compared plans use measured products.
void warn_of_measured(Answer& out) {
  std::set<std::string> said;
  for (const Option& o : out.options)
    if (const std::string note = measured_note(out.best()->assessment, o.assessment); !note.empty() && said.insert(note).second)
      out.warnings.push_back(note);
}

/// Warns if the best plan would be within the budget without the idle devices of its nodes.
void warn_of_idle_devices(Answer& out) {
  const Option& best = *out.best();
  const auto& busy = best.budget.money_without_idle;
  if (!busy || in_budget(best) || busy->value > *best.conditions.budget) return;
  out.warnings.push_back("only its idle devices, " + count_text(std::llround(best.budget.rented.idle)) +
                         " of whole nodes, make the plan cost more than --budget");
}

/// What a search says of the best layout, or that a search would turn on what a given one has off.
void warn_of_layout(Answer& out, const Request& request) {
  const Option& best = *out.best();
  if (const auto& found = best.assessment.candidate.found) {
    out.warnings.insert(out.warnings.end(), found->remarks.begin(), found->remarks.end());
  } else if (!best.conditions.measured_factor && chosen_layout(request.choice).empty()) {
    const std::string note = overlaps_note(best.assessment, request.choice.stack);
    if (!note.empty()) out.warnings.push_back(note);
  }
}

void add_warnings(Answer& out, const Request& request, const Facts& facts) {
  const Option* best = out.best();
  if (best == nullptr) return;
  warn_of_single_devices(out);
  warn_of_calibrations(out);
  warn_of_notes(out);
  warn_of_measured(out);
  warn_of_unknowns(out, request, facts);
  if (const auto& price = best->conditions.price; price && price->offer != nullptr) {
    const auto age = (facts.today - price->offer->date).count();
    const FailureChoice& own = request.failures;
    if (price->offer->kind == PriceKind::spot && !own.per_device_day && !own.mtbf_hours && !own.goodput)
      out.warnings.push_back("providers reclaim spot devices: the failures here are those of reserved devices; --failures takes yours");
    if (age > kOldDays)
      out.warnings.push_back("the price is " + std::to_string(age) + " days old (" + price->offer->date_text + "): look it up at " +
                             price->offer->source + ", or give --price");
  }
  warn_of_layout(out, request);
  const std::string& wider = best->assessment.prediction.range.wider;
  if (best->budget.published && !best->conditions.measured_factor && !wider.empty())
    out.warnings.push_back("beyond the records: " + wider);
  if (best->budget.memory == MemoryVerdict::tight)
    out.warnings.push_back(tight_note(facts.memory_error));
  warn_of_idle_devices(out);
  const auto& energy = best->budget.energy;
  const auto limit = energy ? best->conditions.power->limit_kw : std::nullopt;
  if (limit && energy->peak_kw > *limit)
    out.warnings.push_back("the peak of " + number_text(energy->peak_kw, 0) + " kW is more than the " + number_text(*limit, 0) +
                           " kW of --power-limit");
}

}  // namespace

const Option* Answer::best() const {
  if (!options.empty()) return &options.front();
  return too_large.empty() ? nullptr : &too_large.front();
}

const Option* Answer::fewest_devices() const {
  const auto devices = [](const Option& o) { return o.assessment.devices(); };
  const auto alike = [&](const Option& o) { return devices(o) == devices(options.front()); };
  const bool limited = !options.empty() && (options.front().conditions.days || options.front().conditions.budget);
  if (!limited || std::all_of(options.begin(), options.end(), alike)) return nullptr;
  const Option* fewest = nullptr;
  for (const Option& o : options)
    if (meets_limits(o) && (fewest == nullptr || devices(o) < devices(*fewest))) fewest = &o;
  return fewest;
}

Answer answer(const Request& request, const Facts& facts) {
  std::vector<std::string> chosen;
  std::vector<Assessment> plans = assessments(request);
  for (std::string text : {chosen_batch(request.choice), chosen_layout(request.choice)})
    if (!text.empty()) chosen.push_back(std::move(text));
  return answer_of(request, facts, std::move(plans), chosen);
}

Answer answer_of(const Request& request, const Facts& facts, std::vector<Assessment> plans,
                 const std::vector<std::string>& chosen) {
  Answer out;
  for (Assessment& a : plans) {
    if (!a.refusal.empty()) {
      out.refused[a.refusal].push_back(a.candidate.label);
      continue;
    }
    Option option = option_of(request, facts, std::move(a));
    auto& list = option.budget.memory == MemoryVerdict::too_large ? out.too_large : out.options;
    list.push_back(std::move(option));
  }
  std::stable_sort(out.options.begin(), out.options.end(), better);
  const auto nearer = [](const Option& a, const Option& b) { return excess(a) < excess(b); };
  std::stable_sort(out.too_large.begin(), out.too_large.end(), nearer);
  if (out.best() == nullptr) return out;
  require_prices(request, facts, out);
  const ChangeMaker maker(request, facts, *out.best());
  for (const auto& [name, value] : request.what_if) out.what_if.push_back(maker.change(name, value));
  if (request.tornado) out.tornado = maker.tornado();
  out.warnings = chosen;
  add_warnings(out, request, facts);
  if (!out.best()->budget.published) out.warnings.insert(out.warnings.begin(), unpublished(*out.best(), facts));
  return out;
}

}  // namespace tandem::planning
