#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/tandem/planning/answer_text.hpp"
#include "reports/prediction/plan_title.hpp"

namespace tandem::planning {
namespace {

using nlohmann::ordered_json;

/// JSON has no infinity: it becomes null.
ordered_json finite(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); }

ordered_json ranged(const Ranged& r) { return {{"value", r.value}, {"low", r.low}, {"high", r.high}}; }

template <class T>
ordered_json optional(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json layout(const Plan& plan) {
  return {{"model", title(plan)},               {"cluster", plan.cluster.preset},  {"devices", plan.cluster.devices},
          {"tensor", plan.parallel.tensor},     {"pipeline", plan.parallel.pipeline},
          {"virtual_pipeline", plan.parallel.virtual_pipeline}, {"context", plan.parallel.context},
          {"expert", plan.parallel.expert},     {"data", plan.parallel.data},
          {"zero_stage", plan.parallel.zero_stage}, {"stack", plan.stack.name}};
}

ordered_json at(const CandidatePlan& candidate) {
  return candidate.found ? ordered_json::parse(candidate.found->at) : ordered_json();
}

ordered_json active(const ModelSpec& model) {
  return has_active_parameters(model) ? ordered_json(active_parameters(model)) : ordered_json();
}

ordered_json money(const Option& o, const Budget& b) {
  if (!b.money || !o.conditions().price) return nullptr;
  const PriceCondition& p = *o.conditions().price;
  ordered_json out = ranged(*b.money);
  out["currency"] = p.currency.empty() ? ordered_json() : ordered_json(p.currency);
  out["per_trillion_tokens"] = b.money->value / o.tokens() * 1e12;
  out["device_hour"] = p.device_hour;
  out["without_idle"] = ranged(*b.money_without_idle);
  out["offer"] = nullptr;
  if (p.offer != nullptr)
    out["offer"] = {{"kind", name(p.offer->kind)},     {"provider", p.offer->provider}, {"instance", p.offer->instance},
                    {"date", p.offer->date_text},      {"source", p.offer->source},     {"list_price", p.offer->list_price}};
  return out;
}

ordered_json energy(const Option& o, const Budget& b) {
  if (!b.energy || !o.conditions().power) return nullptr;
  const PowerCondition& p = *o.conditions().power;
  return {{"kwh", ranged(b.energy->kwh)},  {"peak_kw", b.energy->peak_kw},    {"co2_kg", optional(b.energy->co2_kg)},
          {"busy_w", p.draw.busy_w},       {"idle_w", p.draw.idle_w},         {"host_busy_w", p.draw.host_busy_w},
          {"host_idle_w", p.draw.host_idle_w}, {"pue", p.pue}};
}

ordered_json failures(const Option& o, const Budget& b) {
  const FailureBudget& f = b.failures;
  return {{"per_device_day", o.conditions().failures.per_device_day},
          {"mtbf_hours", finite(f.mtbf_hours)},
          {"expected", f.expected},
          {"goodput", b.goodput},
          {"saving", f.shares.saving},
          {"lost", f.shares.lost},
          {"down", f.shares.down},
          {"available", f.available},
          {"spare_nodes", f.spares}};
}

ordered_json checkpoint(const Option& o, const Budget& b) {
  const PricedPhase& phase = longest(o.phases);
  const FailureCondition& c = phase.conditions.failures;
  return {{"bytes", phase.assessment.checkpoint_bytes()}, {"save_s", c.save_s + c.durable_s},
          {"async", c.durable_s > 0},                 {"interval_s", finite(b.failures.interval_s)},
          {"at_end", b.failures.saves_at_end},
          {"young_s", finite(b.failures.young_s)},    {"daly_s", finite(b.failures.daly_s)}};
}

ordered_json memory(const PricedPhase& p) {
  const char* verdicts[] = {"fits", "tight", "too large"};
  return {{"needed_bytes", p.assessment.needed_bytes()},
          {"device_bytes", p.assessment.prediction.device_memory.count()},
          {"verdict", verdicts[static_cast<std::size_t>(p.budget.memory)]}};
}

ordered_json phase(const PricedPhase& p, const Phase& asked) {
  const Budget& b = p.budget;
  ordered_json fields = ordered_json::object();
  for (const auto& [field, value] : asked.fields) fields[field] = value;
  return {{"tokens", p.conditions.tokens},
          {"fields", fields},
          {"layout", layout(p.assessment.plan)},
          {"at", at(p.assessment.candidate)},
          {"steps", b.steps},
          {"tokens_per_step", p.assessment.plan.global_batch_tokens()},
          {"step_time_s", ranged(b.step_s)},
          {"published", b.published},
          {"bound", b.bound},
          {"range_basis", p.assessment.prediction.range.basis},
          {"days", ranged(b.days)},
          {"device_hours", ranged(b.device_hours)},
          {"money", b.money ? ordered_json(b.money->value) : ordered_json()},
          {"kwh", b.energy ? ordered_json(b.energy->kwh.value) : ordered_json()},
          {"failures", b.failures.expected},
          {"goodput", b.goodput},
          {"memory", memory(p)}};
}

ordered_json phases(const Option& o, const std::vector<Phase>& asked) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < o.phases.size(); ++i) out.push_back(phase(o.phases[i], asked[i]));
  return out;
}

std::string range_basis(const Option& o) {
  std::vector<std::vector<std::string>> said;
  for (const PricedPhase& p : o.phases) said.push_back({p.assessment.prediction.range.basis});
  std::string out;
  for (const std::string& text : by_phase(said)) out += (out.empty() ? "" : "; ") + text;
  return out;
}

ordered_json option(const Option& o, const std::vector<Phase>& asked) {
  const Budget& b = o.budget;
  return {{"label", o.assessment().candidate.label},
          {"layout", layout(o.assessment().plan)},
          {"at", at(o.assessment().candidate)},
          {"active_parameters", active(o.assessment().plan.model)},
          {"steps", b.steps},
          {"step_time_s", ranged(b.step_s)},
          {"measured", o.conditions().measured_factor.has_value()},
          {"published", b.published},
          {"bound", b.bound},
          {"range_basis", range_basis(o)},
          {"days", ranged(b.days)},
          {"in_time", optional(b.in_time)},
          {"in_budget", optional(b.in_budget)},
          {"device_hours", ranged(b.device_hours)},
          {"nodes", largest(o.phases).assessment.nodes()},
          {"devices_per_node", o.assessment().built_per_node},
          {"spare_devices", b.rented.spare},
          {"idle_devices", b.rented.idle},
          {"money", money(o, b)},
          {"energy", energy(o, b)},
          {"failures", failures(o, b)},
          {"checkpoint", checkpoint(o, b)},
          {"memory", memory(neediest(o.phases))},
          {"phases", phases(o, asked)},
          {"notes", o.notes()}};
}

ordered_json change(const Change& c) {
  const bool impossible = !c.refusal.empty();
  const auto figure = [&](double value) { return impossible ? ordered_json() : ordered_json(value); };
  return {{"name", c.name},
          {"value", c.value},
          {"refusal", c.refusal},
          {"days", figure(c.budget.days.value)},
          {"money", c.budget.money ? ordered_json(c.budget.money->value) : ordered_json()},
          {"energy_kwh", c.budget.energy ? ordered_json(c.budget.energy->kwh.value) : ordered_json()},
          {"goodput", figure(c.budget.goodput)},
          {"tokens_per_step", c.tokens_per_step == 0 ? ordered_json() : ordered_json(c.tokens_per_step)},
          {"step_time_s", figure(c.budget.step_s.value)},
          {"note", c.note},
          {"fits", !impossible && c.budget.memory != MemoryVerdict::too_large}};
}

}  // namespace

std::string to_json(const Answer& a) {
  ordered_json out = {{"schema_version", 1},
                      {"tokens", a.best()->tokens()},
                      {"interrupted", a.interrupted},
                      {"best", option(*a.best(), a.phases)}};
  const Option* fewest = a.fewest_devices();
  out["fewest_devices"] = fewest == nullptr ? ordered_json() : ordered_json(std::llround(largest(fewest->phases).assessment.devices()));
  ordered_json options = ordered_json::array(), refused = ordered_json::array(), what_if = ordered_json::array(),
               tornado = ordered_json::array();
  for (const auto* list : {&a.options, &a.too_large})
    for (const Option& o : *list) options.push_back(option(o, a.phases));
  for (const auto& [reason, labels] : a.refused) refused.push_back({{"reason", reason}, {"plans", labels.size()}, {"labels", labels}});
  for (const Change& c : a.what_if) what_if.push_back(change(c));
  for (const Sensitivity& s : a.tornado) tornado.push_back({{"input", s.input}, {"low", change(s.low)}, {"high", change(s.high)}});
  out["options"] = options, out["refused"] = refused, out["what_if"] = what_if, out["tornado"] = tornado, out["warnings"] = a.warnings;
  return out.dump(2) + "\n";
}

}  // namespace tandem::planning
