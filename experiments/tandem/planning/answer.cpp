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
#include "sim/result/error_book.hpp"

namespace tandem::planning {
namespace {

constexpr int kOldDays = 90;
constexpr std::size_t kShownNotes = 8;

using Plans = std::vector<CandidatePlan>;

/// A measured step time holds for one plan only.
void require_one_plan(const Request& request, std::size_t plans) {
  if (request.step_s && request.phases.size() > 1)
    throw ConfigError(Problem{"--step-time", "", number_text(*request.step_s, 3), "is of one plan, and each phase has its own step",
                              "give --tokens, for one phase"});
  if (request.step_s && plans > 1)
    throw ConfigError(Problem{"--step-time", "", number_text(*request.step_s, 3), "is of one plan, and " + std::to_string(plans) + " are compared",
                              "give the plan that was measured, and --what-if for changes of it"});
}

/// The clusters of all plans and of their changes, each once.
std::vector<std::string> clusters_of(const Request& request, const std::vector<Plans>& trainings) {
  const nlohmann::json::json_pointer preset("/cluster/preset");
  std::vector<std::string> out;
  const auto add = [&](const std::string& cluster) {
    if (std::find(out.begin(), out.end(), cluster) == out.end()) out.push_back(cluster);
  };
  for (const Plans& plans : trainings) {
    const auto document = nlohmann::json::parse(plans.front().text);  // all phases run on one cluster
    if (document.contains(preset) && document[preset].is_string()) add(document[preset]);
  }
  for (const std::string& cluster : changed_clusters(request)) add(cluster);
  return out;
}

/// assess(), with the phase in problems of the fields that it sets.
Assessment assess_phase(const CandidatePlan& plan, const Request& request, std::size_t phase) {
  try {
    return assess(plan, request.choice.stack);
  } catch (const ConfigError& e) {
    throw ConfigError(problems_in(request.phases[phase], e.problems()));
  }
}

std::vector<Assessments> assessments(const Request& request) {
  const std::vector<Plans> trainings = candidates(request.choice, request.phases);
  require_price_clusters(request.price, clusters_of(request, trainings));
  require_one_plan(request, trainings.size());
  const std::size_t phases = request.phases.size();
  std::vector<Assessments> out(trainings.size(), Assessments(phases));
  const auto work = [&](std::size_t i) {
    const CandidatePlan& plan = trainings[i / phases][i % phases];
    out[i / phases][i % phases] = assess_phase(plan, request, i % phases);
  };
  for_each_index(trainings.size() * phases, program::interruptible(request.jobs), work);
  return out;
}

Option option_of(const Request& request, const Facts& facts, Assessments assessments) {
  Option out;
  for (std::size_t i = 0; i < assessments.size(); ++i) {
    PricedPhase phase{std::move(assessments[i]), {}, {}};
    phase.conditions = conditions_of(request, facts, phase.assessment, i);
    phase.budget = budget_of(phase.assessment, phase.conditions, facts);
    out.phases.push_back(std::move(phase));
  }
  out.budget = whole_budget(out.phases, facts);
  return out;
}

/// Why a training of `count` phases is impossible, by the phases that are; empty if none is.
std::string refusal_of(const Assessments& phases, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].refusal.empty()) continue;
    out += (out.empty() ? "" : "; ") + phase_prefix(i + 1, count) + phases[i].refusal;
  }
  return out;
}

/// Where prices are asked for, or money is limited and the best plan has none: refuses all devices without a price at once.
void require_prices(const Request& request, const Facts& facts, const Answer& out) {
  if (!asks_for_price(request) && (!request.budget || out.best()->conditions().price)) return;
  std::vector<Problem> problems;
  for (const auto* list : {&out.options, &out.too_large})
    for (const Option& o : *list) {
      if (o.conditions().price) continue;
      Problem p = no_price(request, facts, o.assessment());
      const auto known = [&](const Problem& other) { return other.value == p.value; };
      if (std::none_of(problems.begin(), problems.end(), known)) problems.push_back(std::move(p));
    }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

/// Without prices the days of all rented devices, which money is in proportion to.
double merit(const Option& o) {
  if (o.budget.money) return o.budget.ranked(*o.budget.money);
  double out = 0;
  for (const PricedPhase& p : o.phases) out += p.budget.ranked(p.budget.days) * p.budget.rented.paid();
  return out;
}

/// Order, by Budget::ranked: in time and within the budget first, then in time, then those with a price, then the cheapest; late plans by speed.
bool better(const Option& a, const Option& b) {
  if (meets_limits(a) != meets_limits(b)) return meets_limits(a);
  if (in_time(a) != in_time(b)) return in_time(a);
  if (!in_time(a)) return a.budget.ranked(a.budget.days) < b.budget.ranked(b.budget.days);
  if (a.budget.money.has_value() != b.budget.money.has_value()) return a.budget.money.has_value();
  return merit(a) < merit(b);
}

double excess(const Option& o) { return memory_share(neediest(o.phases)); }

std::string unpublished(const Option& o, const Facts& facts) {
  const Topology& topology = *o.assessment().topology;
  const std::string bound = "without a calibration the step time is a bound; " + facts.errors.uncalibrated.reason;
  return "no record on " + topology.device().name + ": " + (sim::is_bound(topology) ? bound : "its ranges are a wide default");
}

/// Warns if a provider only rents single devices: nodes with their network may be unavailable or cost more.
void warn_of_single_devices(Answer& out) {
  std::set<std::string> clusters;
  for (const Option& o : out.options) {
    const auto& price = o.conditions().price;
    const auto on_nodes = [](const PricedPhase& p) {
      const Topology& topology = *p.assessment.topology;
      return topology.devices_per_node() > 1 && topology.devices() > topology.devices_per_node();
    };
    const bool nodes = std::any_of(o.phases.begin(), o.phases.end(), on_nodes);
    if (nodes && price && price->offer != nullptr && price->offer->devices == 1)
      clusters.insert(o.assessment().plan.cluster.preset);
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
      for (const std::string& note : o.assessment().prediction.notes)
        if (note.starts_with(sim::kCaveat) && said.insert(note).second)
          out.warnings.push_back(o.assessment().topology->device().name + ", " + note);
}

/// What a bound beside predictions means.
void warn_of_bounds(Answer& out) {
  const auto bound = [](const Option& o) { return o.budget.bound; };
  const auto bounds = std::count_if(out.options.begin(), out.options.end(), bound);
  if (bounds == 0 || bounds == static_cast<std::ptrdiff_t>(out.options.size())) return;
  out.warnings.emplace_back("figures of a device without a calibration are bounds, the least of their ranges: such a plan is ranked, and "
                            "judged in time and within the budget, by the middle of its range");
}

/// Passes on notes about plans that fit, the best plan's first; each once, with the plans that have it.
void warn_of_notes(Answer& out) {
  std::vector<std::pair<std::string, std::vector<const Option*>>> notes;
  const auto collect = [&](const Option& o) {
    for (const std::string& text : o.notes()) {
      const auto known = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == text; });
      (known == notes.end() ? notes.emplace_back(text, std::vector<const Option*>{}) : *known).second.push_back(&o);
    }
  };
  if (out.options.empty()) collect(*out.best());
  for (const Option& o : out.options) collect(o);
  std::size_t shown = 0;
  for (const auto& [text, of] : notes) {
    if (of.front() != out.best() && shown == kShownNotes) continue;
    const std::string& label = of.front()->assessment().candidate.label;
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
    if (!o.conditions().price) {
      const Problem problem = no_price(request, facts, o.assessment());
      warn(problem.reason + ": " + problem.remedy);
    }
    if (!o.conditions().power) warn("watts of " + o.assessment().topology->device().name + " are not known: give --watts");
  };
  if (out.options.empty()) reasons(*out.best());
  for (const Option& o : out.options) reasons(o);
}

/// Warns if only some of the compared plans use measured products.
void warn_of_measured(Answer& out) {
  std::set<std::string> said;
  for (const Option& o : out.options)
    if (const std::string note = measured_note(out.best()->assessment(), o.assessment()); !note.empty() && said.insert(note).second)
      out.warnings.push_back(note);
}

/// Warns if the best plan would be within the budget without the idle devices of its nodes.
void warn_of_idle_devices(Answer& out) {
  const Option& best = *out.best();
  const auto& busy = best.budget.money_without_idle;
  if (!busy || in_budget(best) || busy->value > *best.conditions().budget) return;
  out.warnings.push_back("only its idle devices, " + count_text(std::llround(best.budget.rented.idle)) +
                         " of whole nodes, make the plan cost more than --budget");
}

/// What a search says of the best layout, or that a search would turn on what a given one has off.
void warn_of_layout(Answer& out, const Request& request) {
  const Option& best = *out.best();
  const bool given = !best.conditions().measured_factor && chosen_layout(request.choice, request.phases).empty();
  std::vector<std::vector<std::string>> said;
  for (const PricedPhase& p : best.phases) {
    std::vector<std::string>& remarks = said.emplace_back();
    if (const auto& found = p.assessment.candidate.found) remarks = found->remarks;
    else if (given) remarks.push_back(overlaps_note(p.assessment, request.choice.stack));
    std::erase(remarks, "");
  }
  for (std::string& text : by_phase(said)) out.warnings.push_back(std::move(text));
}

/// That a device has no records like a plan.
void warn_of_ranges(Answer& out) {
  const Option& best = *out.best();
  if (!best.budget.published || best.conditions().measured_factor) return;
  std::vector<std::vector<std::string>> said;
  for (const PricedPhase& p : best.phases) {
    const std::string& wider = p.assessment.prediction.range.wider;
    said.push_back(wider.empty() ? std::vector<std::string>{} : std::vector<std::string>{"beyond the records: " + wider});
  }
  for (std::string& text : by_phase(said)) out.warnings.push_back(std::move(text));
}

/// A ramp-up is of the first phase, even if that is too short for it.
void warn_of_ramp_up(Answer& out) {
  const Option& best = *out.best();
  const Plan& plan = best.assessment().plan;
  const TrainingSpec& t = plan.training;
  const double sample = static_cast<double>(plan.global_batch_tokens()) / static_cast<double>(t.global_batch_size);
  if (best.phased() && t.batch_rampup.start > 0 && best.conditions().tokens < sample * static_cast<double>(t.batch_rampup.samples))
    out.warnings.emplace_back("phase 1 ends before the batch ramp-up of the plan does; phase 2 begins with whole batches");
}

void add_warnings(Answer& out, const Request& request, const Facts& facts) {
  const Option* best = out.best();
  if (best == nullptr) return;
  warn_of_single_devices(out);
  warn_of_calibrations(out);
  warn_of_bounds(out);
  warn_of_notes(out);
  warn_of_measured(out);
  warn_of_unknowns(out, request, facts);
  if (const auto& price = best->conditions().price; price && price->offer != nullptr) {
    const auto age = (facts.today - price->offer->date).count();
    const FailureChoice& own = request.failures;
    if (price->offer->kind == PriceKind::spot && !own.per_device_day && !own.mtbf_hours && !own.goodput)
      out.warnings.push_back("providers reclaim spot devices: the failures here are those of reserved devices; --failures takes yours");
    if (age > kOldDays)
      out.warnings.push_back("the price is " + std::to_string(age) + " days old (" + price->offer->date_text + "): look it up at " +
                             price->offer->source + ", or give --price");
  }
  warn_of_layout(out, request);
  warn_of_ramp_up(out);
  warn_of_ranges(out);
  if (best->budget.memory == MemoryVerdict::tight)
    out.warnings.push_back(tight_note(facts.memory_error));
  warn_of_idle_devices(out);
  const auto& energy = best->budget.energy;
  const auto limit = energy ? best->conditions().power->limit_kw : std::nullopt;
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
  const auto devices = [](const Option& o) { return largest(o.phases).assessment.devices(); };
  const auto alike = [&](const Option& o) { return devices(o) == devices(options.front()); };
  const bool limited = !options.empty() && (options.front().conditions().days || options.front().conditions().budget);
  if (!limited || std::all_of(options.begin(), options.end(), alike)) return nullptr;
  const Option* fewest = nullptr;
  for (const Option& o : options)
    if (meets_limits(o) && (fewest == nullptr || devices(o) < devices(*fewest))) fewest = &o;
  return fewest;
}

Answer answer(const Request& request, const Facts& facts) {
  std::vector<std::string> chosen;
  std::vector<Assessments> trainings = assessments(request);
  for (std::string text : {chosen_batch(request.choice, request.phases), chosen_layout(request.choice, request.phases)})
    if (!text.empty()) chosen.push_back(std::move(text));
  return answer_of(request, facts, std::move(trainings), chosen);
}

Answer answer_of(const Request& request, const Facts& facts, std::vector<Assessments> trainings,
                 const std::vector<std::string>& chosen) {
  Answer out;
  out.phases = request.phases;
  for (Assessments& phases : trainings) {
    if (const std::string refusal = refusal_of(phases, request.phases.size()); !refusal.empty()) {
      out.refused[refusal].push_back(phases.front().candidate.label);
      continue;
    }
    Option option = option_of(request, facts, std::move(phases));
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
