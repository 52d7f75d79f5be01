#include "experiments/tandem/planning/answer_text.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/tandem/planning/answer_parts.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::planning {
namespace {

constexpr double kDataBytesPerToken = 4;  // 32-bit token ids

std::string rate_text(double bytes_per_s) {
  if (bytes_per_s >= 1e12) return number_text(bytes_per_s / 1e12, 2) + " TB/s";
  return bytes_per_s >= 1e9 ? number_text(bytes_per_s / 1e9, 1) + " GB/s" : number_text(bytes_per_s / 1e6, 2) + " MB/s";
}

/// Degrees of the layout, or how many layouts there are.
std::string layouts_text(const Option& o) {
  const std::string first = degrees(o.assessment().plan);
  const auto other = [&](const PricedPhase& p) { return degrees(p.assessment.plan) != first; };
  return std::any_of(o.phases.begin(), o.phases.end(), other) ? std::to_string(o.phases.size()) + " phases with layouts of their own" : first;
}

std::string headline(const Option& o) {
  const Plan& plan = o.assessment().plan;
  const std::string all = count_text(count_parameters(plan.model, plan.model.vocab_size).total) + " parameters";
  const std::string active = has_active_parameters(plan.model) ? " (" + active_text(plan.model) + ")" : "";
  return stack_text(plan) + "\n" + title(plan) + ", " + all + active + adapters_text(plan) + ", on " + plan.cluster.preset + device_text(plan) + ": " +
         layouts_text(o) + "\n";
}

/// The layout that was searched. Layouts of several phases are in their table.
std::string layout_line(const Option& o) {
  if (o.phased()) return "";
  const auto& found = o.assessment().candidate.found;
  return found ? line("layout", found->text) : "";
}

std::string step_text(const Option& o) {
  const Ranged& step = o.budget.step_s;
  const std::string range = time_text(step.low) + " to " + time_text(step.high) + ", 80 %";
  const std::string simulated = "measured; simulated: " + time_text(o.assessment().prediction.step_time.seconds());
  return time_text(step.value) + " each (" + (o.conditions().measured_factor ? simulated : range) + ")";
}

/// "24 steps", "1 step", "238,419 steps"
std::string counted_steps(double steps) { return steps_text(steps) + (steps == 1 ? " step" : " steps"); }

std::string tokens_line(const Option& o) {
  const Budget& b = o.budget;
  const std::string phases = std::to_string(o.phases.size()) + " phases";
  if (o.phased()) return line("tokens", figure(o.tokens()) + " in " + phases + " of " + counted_steps(b.steps) + " in all");
  const std::string batch = (b.full_steps < b.steps ? "up to " : "") + count_text(o.assessment().plan.global_batch_tokens());
  return line("tokens", figure(o.tokens()) + " in " + counted_steps(b.steps) + " of " + batch + " tokens, " + step_text(o));
}

std::string days_line(const Option& o) {
  const Budget& b = o.budget;
  const Span span = span_of(b);
  const Ranged whole{span.of(b.days.value), span.of(b.days.low), span.of(b.days.high)};
  return line(span.name, ranged(whole) + (b.in_time ? "; in " + figure(*o.conditions().days) + " days with a probability of " + likelihood(*b.in_time) : ""));
}

/// " in 64 nodes of 8", or " in 16 nodes (64 of the 72 devices of each)"; nothing of a single node that is full.
std::string nodes_text(const Assessment& a) {
  const std::int64_t used = std::min(a.topology->devices_per_node(), a.plan.cluster.devices);
  const std::int64_t nodes = a.nodes(), built = a.built_per_node;
  if (nodes == 1 && used == built) return "";
  const std::string count = " in " + count_text(nodes) + (nodes == 1 ? " node" : " nodes");
  if (used == built) return count + " of " + count_text(built);
  return count + " (" + count_text(used) + " of the " + count_text(built) + " devices of " + (nodes == 1 ? "it)" : "each)");
}

std::string devices_line(const Option& o) {
  const Budget& b = o.budget;
  const int nodes = b.failures.spares;
  const Assessment& a = largest(o.phases).assessment;
  const auto fewer = [&](const PricedPhase& p) { return p.assessment.devices() < a.devices(); };
  const std::string up_to = std::any_of(o.phases.begin(), o.phases.end(), fewer) ? "up to " : "";
  const std::string spares =
      nodes > 0 ? " and " + count_text(std::llround(b.rented.spare)) + " spare (" + count_text(nodes) + (nodes == 1 ? " whole node)" : " whole nodes)") : "";
  return line("devices", up_to + count_text(a.plan.cluster.devices) + " x " + a.topology->device().name + nodes_text(a) +
                             spares + ", " + ranged(b.device_hours) + " device hours" + (nodes > 0 ? " without the spares" : ""));
}

std::string kind_text(const Offer& offer) {
  std::string kind(name(offer.kind));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return kind;
}

std::string price_text(const Option& o) {
  const PriceCondition& p = *o.conditions().price;
  const std::string hour = number_text(p.device_hour, 2) + currency_of(o.conditions()) + " a device hour";
  if (p.offer == nullptr) return hour;
  return hour + ", " + kind_text(*p.offer) + ", " + p.offer->provider + " " + p.offer->instance + ", " + p.offer->date_text +
         (p.offer->list_price ? ", list price" : ", as quoted");
}

/// That whole nodes are paid, and what the money would be without their idle devices.
std::string idle_line(const Option& o) {
  const Budget& b = o.budget;
  if (b.rented.idle == 0) return "";
  return line("", "for whole nodes; without their " + count_text(std::llround(b.rented.idle)) + " idle devices " +
                      ranged(*b.money_without_idle, currency_of(o.conditions())));
}

std::string budget_line(const Option& o) {
  const Budget& b = o.budget;
  if (!b.in_budget) return "";
  return line("", "within " + figure(*o.conditions().budget) + currency_of(o.conditions()) + " with a probability of " + likelihood(*b.in_budget));
}

std::string money_lines(const Option& o) {
  if (!o.budget.money) return line("money", "no price is known of " + o.assessment().topology->device().name + ": give --price, of a device hour");
  const Ranged& m = *o.budget.money;
  const std::string unit = currency_of(o.conditions()), spares = o.budget.rented.spare > 0 ? " with the spares" : "";
  const std::string each = figure(m.value / o.tokens() * 1e12) + unit + " per trillion tokens";
  return line("money", ranged(m, unit) + spares + ", " + each) + line("", price_text(o)) + idle_line(o) + budget_line(o);
}

std::string energy_line(const Option& o) {
  if (!o.budget.energy) return line("energy", "watts are not known: give --watts");
  const EnergyBudget& e = *o.budget.energy;
  const PowerCondition& p = *o.conditions().power;
  const Ranged mwh{e.kwh.value / 1000, e.kwh.low / 1000, e.kwh.high / 1000};
  return line("energy", ranged(mwh) + " MWh, peak " + figure(e.peak_kw) + " kW; " + number_text(p.draw.busy_w, 0) + " W a busy device and " +
                            number_text(p.draw.host_busy_w, 0) + " W of its host, PUE " + number_text(p.pue, 2) +
                            (o.budget.rented.idle > 0 ? ", without the idle devices" : "") +
                            (e.co2_kg ? "; " + figure(*e.co2_kg / 1000) + " t of CO2" : ""));
}

std::string failures_line(const Option& o) {
  const FailureBudget& f = o.budget.failures;
  if (o.conditions().failures.goodput) return line("failures", "goodput " + percent(*o.conditions().failures.goodput) + ", as given");
  std::string out = std::isfinite(f.mtbf_hours) ? figure(f.expected) + " expected, one in " + span_text(f.mtbf_hours * 3600) : "none";
  const auto share = [&](double of) { return percent(of * f.available); };
  out += "; goodput (time of steps that count) " + percent(o.budget.goodput) + ", detection and restart " + share(f.shares.down) + ", lost work " +
         share(f.shares.lost) + ", saves " + share(f.shares.saving);
  if (f.available < 1) out += ", waiting for repair " + percent(1 - f.available);
  return line("failures", out);
}

std::string checkpoint_line(const Option& o) {
  const PricedPhase& phase = longest(o.phases);
  const FailureCondition& c = phase.conditions.failures;
  const FailureBudget& f = o.budget.failures;
  if (c.goodput) return "";
  const double bytes = phase.assessment.checkpoint_bytes(), save = c.save_s + c.durable_s;
  const bool free_of_failures = !std::isfinite(f.mtbf_hours) && !c.interval_s;
  std::string out = bytes_text(std::llround(bytes)) + (f.saves_at_end ? " once, at the end" : " every " + span_text(f.interval_s));
  if (free_of_failures) out += " (no failures, so no interval is best; --interval sets one)";
  if (!c.interval_s && c.save_s > 0 && !f.saves_at_end)
    out += " (the best interval; by Young's formula " + span_text(f.young_s) + ", by Daly's " + span_text(f.daly_s) + ")";
  if (save > 0) out += ", " + time_text(save) + (c.durable_s > 0 ? " in the background" : " a save") + " at " + rate_text(bytes / save);
  return line("checkpoint", out + "; training data " + rate_text(phase.assessment.prediction.tokens_per_s * kDataBytesPerToken));
}

std::string memory_line(const Option& o) {
  const PricedPhase& p = neediest(o.phases);
  const std::size_t number = static_cast<std::size_t>(&p - o.phases.data()) + 1;
  const std::string of = bytes_text(p.assessment.needed_bytes()) + " of the device's " + bytes_text(p.assessment.prediction.device_memory.count());
  const char* verdicts[] = {", fits", ", fits but TIGHT", ", DOES NOT FIT"};
  return line("memory", phase_prefix(number, o.phases.size()) + of + verdicts[static_cast<std::size_t>(p.budget.memory)]);
}

}  // namespace

std::string to_text(const Answer& a) {
  const Option& o = *a.best();
  std::string out;
  // A warning that nothing was measured comes first.
  std::vector<std::string> warnings = a.warnings;
  if (!warnings.empty() && warnings.front().starts_with("no record on")) {
    out += "warning: " + warnings.front() + "\n";
    warnings.erase(warnings.begin());
  }
  out += headline(o) + layout_line(o);
  out += tokens_line(o) + phases_text(a) + days_line(o) + devices_line(o) + money_lines(o) + energy_line(o) + failures_line(o);
  out += checkpoint_line(o) + memory_line(o);
  out += options_text(a) + refused_text(a) + what_if_text(a) + tornado_text(a);
  for (const std::string& w : warnings) out += "warning: " + w + "\n";
  return out;
}

}  // namespace tandem::planning
