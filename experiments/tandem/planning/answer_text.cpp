#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "experiments/tandem/planning/answer_text.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::planning {
namespace {

constexpr std::size_t kShownOptions = 20, kShownReasons = 3, kShownLabels = 4;
constexpr double kDataBytesPerToken = 4;  // 32-bit token ids

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 12) + value + "\n"; }

/// Four significant digits: "1,720,000", "34.7".
std::string figure(double value) {
  if (value < 1000) return number_text(value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3);
  const double digit = std::pow(10, std::max(0.0, std::floor(std::log10(value)) - 3));
  const double rounded = std::round(value / digit) * digit;
  return rounded < 9e15 ? count_text(std::llround(rounded)) : number_text(rounded, 0);
}

/// The unit of times: days, or hours where the best plan takes less than a day.
struct Span {
  std::string name;
  double in_a_day = 1;
  double of(double days) const { return days * in_a_day; }
};
Span span_of(const Budget& best) { return best.days.value < 1 ? Span{"hours", 24} : Span{"days", 1}; }

std::string ranged(const Ranged& r, const std::string& unit = "") {
  return figure(r.value) + unit + (r.low < r.high ? " (" + figure(r.low) + " to " + figure(r.high) + ")" : "");
}

std::string percent(double share) { return number_text(100 * share, 1) + " %"; }

/// Never shows certainty, because errors are known from only tens of records.
std::string likelihood(double share) {
  if (share > 0.99) return "over 99 %";
  if (share < 0.01) return "under 1 %";
  return number_text(100 * share, 0) + " %";
}

std::string span_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < kMinute * 2) return time_text(seconds);
  if (seconds < kHour * 2) return number_text(seconds / kMinute, 1) + " min";
  return seconds < kDay * 2 ? number_text(seconds / kHour, 1) + " h" : number_text(seconds / kDay, 1) + " days";
}

std::string rate_text(double bytes_per_s) {
  if (bytes_per_s >= 1e12) return number_text(bytes_per_s / 1e12, 2) + " TB/s";
  return bytes_per_s >= 1e9 ? number_text(bytes_per_s / 1e9, 1) + " GB/s" : number_text(bytes_per_s / 1e6, 2) + " MB/s";
}

std::string headline(const Plan& plan) {
  const std::string active = has_active_parameters(plan.model) ? ", " + active_text(plan.model) : "";
  return stack_text(plan) + "\n" + title(plan) + active + adapters_text(plan) + ", on " + plan.cluster.preset + device_text(plan) + ": " +
         degrees(plan) + "\n";
}

std::string step_text(const Option& o) {
  const Ranged& step = o.budget.step_s;
  const std::string range = time_text(step.low) + " to " + time_text(step.high) + ", 80 %";
  const std::string simulated = "measured; simulated: " + time_text(o.assessment.prediction.step_time.seconds());
  return time_text(step.value) + " each (" + (o.conditions.measured_factor ? simulated : range) + ")";
}

/// "24 steps", "1 step", "238,400 steps".
std::string steps_text(double steps) {
  return (steps < 1000 ? number_text(steps, 0) : figure(steps)) + (steps == 1 ? " step" : " steps");
}

std::string tokens_line(const Option& o) {
  const Budget& b = o.budget;
  return line("tokens", figure(o.conditions.tokens) + " in " + steps_text(b.steps) + " of " +
                            (b.full_steps < b.steps ? "up to " : "") + count_text(o.assessment.plan.global_batch_tokens()) + ", " + step_text(o));
}

std::string days_line(const Option& o) {
  const Budget& b = o.budget;
  const Span span = span_of(b);
  const Ranged whole{span.of(b.days.value), span.of(b.days.low), span.of(b.days.high)};
  return line(span.name, ranged(whole) + (b.in_time ? "; in " + figure(*o.conditions.days) + " days with a probability of " + likelihood(*b.in_time) : ""));
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
  const std::string spares =
      nodes > 0 ? " and " + count_text(std::llround(b.spare_devices)) + " spare (" + count_text(nodes) + (nodes == 1 ? " whole node)" : " whole nodes)") : "";
  return line("devices", count_text(o.assessment.plan.cluster.devices) + " x " + o.assessment.topology->device().name + nodes_text(o.assessment) +
                             spares + ", " + ranged(b.device_hours) + " device hours");
}

std::string kind_text(const Offer& offer) {
  std::string kind(name(offer.kind));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return kind;
}

std::string money_line(const Option& o) {
  if (!o.budget.money) return line("money", "no price is known: give --price");
  const PriceCondition& p = *o.conditions.price;
  const std::string unit = p.currency.empty() ? "" : " " + p.currency;
  const Ranged& m = *o.budget.money;
  std::string out = ranged(m, unit) + ", " + figure(m.value / o.conditions.tokens * 1e12) + " per trillion tokens; " + number_text(p.device_hour, 2) + " a device hour";
  if (p.offer != nullptr)
    out += ", " + kind_text(*p.offer) + ", " + p.offer->provider + " " + p.offer->instance + ", " + p.offer->date_text +
           (p.offer->list_price ? ", list price" : ", as quoted");
  if (o.budget.idle_devices > 0)
    out += "; " + figure(o.budget.whole_nodes->value) + unit + " for whole nodes, with " + count_text(std::llround(o.budget.idle_devices)) +
           " idle devices";
  if (o.budget.in_budget) out += "; within " + figure(*o.conditions.budget) + unit + " with a probability of " + likelihood(*o.budget.in_budget);
  return line("money", out);
}

std::string energy_line(const Option& o) {
  if (!o.budget.energy) return line("energy", "watts are not known: give --watts");
  const EnergyBudget& e = *o.budget.energy;
  const PowerCondition& p = *o.conditions.power;
  const Ranged mwh{e.kwh.value / 1000, e.kwh.low / 1000, e.kwh.high / 1000};
  return line("energy", ranged(mwh) + " MWh, peak " + figure(e.peak_kw) + " kW; " + number_text(p.draw.busy_w, 0) + " W a device and " +
                            number_text(p.draw.host_busy_w, 0) + " W of its host, PUE " + number_text(p.pue, 2) +
                            (e.co2_kg ? "; " + figure(*e.co2_kg / 1000) + " t of CO2" : ""));
}

std::string failures_line(const Option& o) {
  const FailureBudget& f = o.budget.failures;
  if (o.conditions.failures.goodput) return line("failures", "goodput " + percent(*o.conditions.failures.goodput) + ", as given");
  std::string out = std::isfinite(f.mtbf_hours) ? figure(f.expected) + " expected, one in " + span_text(f.mtbf_hours * 3600) : "none";
  out += "; goodput " + percent(o.budget.goodput) + ": " + percent(f.shares.down) + " detection and restart, " + percent(f.shares.lost) +
         " lost work, " + percent(f.shares.saving) + " saves";
  if (f.available < 1) out += ", " + percent(1 - f.available) + " waiting for repair";
  return line("failures", out);
}

std::string checkpoint_line(const Option& o) {
  const FailureCondition& c = o.conditions.failures;
  const FailureBudget& f = o.budget.failures;
  if (c.goodput) return "";
  const double bytes = o.assessment.checkpoint_bytes(), save = c.save_s + c.durable_s;
  const bool free_of_failures = !std::isfinite(f.mtbf_hours) && !c.interval_s;
  std::string out = bytes_text(std::llround(bytes)) + (f.saves_at_end ? " once, at the end" : " every " + span_text(f.interval_s));
  if (free_of_failures) out += " (no failures, so no interval is best; --interval sets one)";
  if (!c.interval_s && c.save_s > 0 && !f.saves_at_end)
    out += " (best; Young " + span_text(f.young_s) + ", Daly " + span_text(f.daly_s) + ")";
  if (save > 0) out += ", " + time_text(save) + (c.durable_s > 0 ? " in the background" : " a save") + " at " + rate_text(bytes / save);
  return line("checkpoint", out + "; data " + rate_text(o.assessment.prediction.tokens_per_s * kDataBytesPerToken));
}

std::string memory_line(const Option& o) {
  const std::string of = bytes_text(o.assessment.needed_bytes()) + " of the device's " + bytes_text(o.assessment.prediction.device_memory.count());
  const char* verdicts[] = {", fits", ", fits but TIGHT", ", DOES NOT FIT"};
  return line("memory", of + verdicts[static_cast<std::size_t>(o.budget.memory)]);
}

std::string money_short(const Budget& b) { return b.money ? figure(b.money->value) : "-"; }

/// The best plan for each cluster and number of devices, best first.
std::vector<const Option*> best_of_each(const std::vector<Option>& options) {
  std::vector<const Option*> out;
  const auto place = [](const Option& o) { return std::pair(o.assessment.plan.cluster.preset, o.assessment.plan.cluster.devices); };
  for (const Option& o : options)
    if (std::none_of(out.begin(), out.end(), [&](const Option* other) { return place(*other) == place(o); })) out.push_back(&o);
  if (out.size() > 1) return out;
  out.clear();
  for (const Option& o : options) out.push_back(&o);
  return out;
}

/// What a reader of a row must know of its device.
std::string device_mark(const Option& o) {
  const std::int64_t cores = o.assessment.devices_per_chip;
  return cores > 1 ? "  a device is 1/" + std::to_string(cores) + " of a chip" : "";
}

std::string option_line(const Option& o, std::size_t width, const Span& span, bool fewest) {
  const Budget& b = o.budget;
  std::string out = "  " + padded(o.assessment.candidate.label, width) + aligned(figure(span.of(b.days.value)), 8);
  out += aligned(money_short(b), 14) + aligned(b.energy ? figure(b.energy->kwh.value / 1000) : "-", 9);
  out += aligned(percent(b.goodput), 9);
  if (b.in_time) out += aligned(likelihood(*b.in_time), 11);
  if (o.conditions.budget) out += aligned(b.in_budget ? likelihood(*b.in_budget) : "-", 11);
  const char* verdicts[] = {"", "  tight", "  too large"};
  return out + verdicts[static_cast<std::size_t>(b.memory)] + (b.published ? "" : "  no published step time") + device_mark(o) +
         (fewest ? "  fewest devices that meet the limits" : "") + "\n";
}

std::string options_text(const Answer& a) {
  if (a.options.size() + a.too_large.size() < 2) return "";
  std::vector<const Option*> shown = best_of_each(a.options);
  const bool grouped = shown.size() < a.options.size();
  shown.resize(std::min(kShownOptions, shown.size()));
  const Span span = span_of(a.best()->budget);
  const Option* fewest = a.fewest_devices();
  std::size_t width = 30;
  for (const Option* o : shown) width = std::max(width, o->assessment.candidate.label.size());
  std::string out = padded(grouped ? "best of each cluster and size" : "plans, best first", width + 2) + aligned(span.name, 8) + aligned("money", 14) +
                    aligned("MWh", 9) + aligned("goodput", 9) + (a.best()->budget.in_time ? aligned("in time", 11) : "") +
                    (a.best()->conditions.budget ? aligned("in budget", 11) : "") + "\n";
  for (const Option* o : shown) out += option_line(*o, width, span, o == fewest);
  if (a.options.size() > shown.size()) out += "  and " + std::to_string(a.options.size() - shown.size()) + " more that fit\n";
  std::map<std::string, std::size_t> unfit;
  for (const Option& o : a.too_large) ++unfit[o.assessment.plan.cluster.preset];
  for (const auto& [cluster, count] : unfit) out += "  " + std::to_string(count) + " do not fit the devices of " + cluster + "\n";
  return out;
}

std::string refused_text(const Answer& a) {
  std::string out;
  std::size_t shown = 0;
  for (const auto& [reason, labels] : a.refused) {
    if (shown++ == kShownReasons) return out + "  and " + std::to_string(a.refused.size() - kShownReasons) + " other reasons\n";
    out += "  " + labels_text(labels) + " cannot be: " + reason + "\n";
  }
  return out;
}

std::string change_text(const Change& c, const Budget& before, const Span& span) {
  const auto beside = [](double now, double then) { return figure(now) + " (" + percent_text(now / then - 1) + ")"; };
  std::string out = beside(span.of(c.budget.days.value), span.of(before.days.value)) + " " + span.name;
  if (c.budget.money) out += ", money " + (before.money ? beside(c.budget.money->value, before.money->value) : figure(c.budget.money->value));
  out += ", goodput " + percent(c.budget.goodput);
  return c.of_plan ? out + ", steps of " + count_text(c.tokens_per_step) + " tokens in " + time_text(c.budget.step_s.value) : out;
}

std::string what_if_line(const Change& c, const Budget& before) {
  const std::string what = "what if " + c.name + " = " + c.value;
  if (!c.refusal.empty()) return what + " cannot be: " + c.refusal + "\n";
  return what + ": " + change_text(c, before, span_of(before)) + (c.budget.memory == MemoryVerdict::too_large ? ", DOES NOT FIT" : "") +
         (c.note.empty() ? "" : "; " + c.note) + "\n";
}

std::string what_if_text(const Answer& a) {
  std::string out;
  for (const Change& c : a.what_if) out += what_if_line(c, a.best()->budget);
  return out;
}

std::string tornado_text(const Answer& a) {
  if (a.tornado.empty()) return "";
  const Span span = span_of(a.best()->budget);
  std::string out = padded("what matters most", 20) + aligned("low", 12) + aligned("high", 12) + aligned(span.name, 20) + aligned("money", 28) + "\n";
  for (const Sensitivity& s : a.tornado) {
    const Budget &l = s.low.budget, &h = s.high.budget;
    out += "  " + padded(s.input, 18) + aligned(s.low.value, 12) + aligned(s.high.value, 12) +
           aligned(figure(span.of(l.days.value)) + " to " + figure(span.of(h.days.value)), 20) +
           aligned(money_short(l) + " to " + money_short(h), 28) + (s.high.note.empty() ? "" : "  " + s.high.note) + "\n";
  }
  return out;
}

}  // namespace

std::string labels_text(std::vector<std::string> labels) {
  if (labels.size() <= kShownLabels) return list_text(labels);
  const std::string more = std::to_string(labels.size() - kShownLabels) + " more";
  labels.resize(kShownLabels);
  labels.push_back(more);
  return list_text(labels);
}

std::string to_text(const Answer& a) {
  const Option& o = *a.best();
  const Plan& plan = o.assessment.plan;
  std::string out;
  // A warning that nothing was measured comes first.
  std::vector<std::string> warnings = a.warnings;
  if (!warnings.empty() && warnings.front().starts_with("no record on")) {
    out += "warning: " + warnings.front() + "\n";
    warnings.erase(warnings.begin());
  }
  out += headline(plan) + tokens_line(o) + days_line(o) + devices_line(o) + money_line(o) + energy_line(o) + failures_line(o);
  out += checkpoint_line(o) + memory_line(o);
  out += options_text(a) + refused_text(a) + what_if_text(a) + tornado_text(a);
  for (const std::string& w : warnings) out += "warning: " + w + "\n";
  return out;
}

}  // namespace tandem::planning
