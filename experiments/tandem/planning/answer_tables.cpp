#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/tandem/planning/answer_parts.hpp"
#include "experiments/tandem/planning/answer_text.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::planning {
namespace {

constexpr std::size_t kShownOptions = 20, kShownReasons = 3, kShownLabels = 4;

/// The currency of all options, if they share one: " USD". Else a cell of each has its own.
std::string common_currency(const std::vector<Option>& options) {
  const auto other = [&](const Option& o) { return currency_of(o.conditions()) != currency_of(options.front().conditions()); };
  return options.empty() || std::any_of(options.begin(), options.end(), other) ? "" : currency_of(options.front().conditions());
}

/// The best plan for each cluster and number of devices, best first.
std::vector<const Option*> best_of_each(const std::vector<Option>& options) {
  std::vector<const Option*> out;
  const auto place = [](const Option& o) {
    const ClusterSpec& cluster = o.assessment().plan.cluster;
    return std::pair(cluster.preset, cluster.devices);
  };
  for (const Option& o : options)
    if (std::none_of(out.begin(), out.end(), [&](const Option* other) { return place(*other) == place(o); })) out.push_back(&o);
  if (out.size() > 1) return out;
  out.clear();
  for (const Option& o : options) out.push_back(&o);
  return out;
}

/// What a reader of a row must know of its device.
std::string device_mark(const Option& o) {
  const std::int64_t cores = o.assessment().devices_per_chip;
  return cores > 1 ? "  a device is 1/" + std::to_string(cores) + " of a chip" : "";
}

/// That a row's money has idle devices of whole nodes, and what it is without them.
std::string idle_mark(const Option& o) {
  const Budget& b = o.budget;
  if (!b.money_without_idle || b.rented.idle == 0) return "";
  return "  " + figure(b.money_without_idle->value) + " without " + count_text(std::llround(b.rented.idle)) + " idle devices";
}

/// That a row has no published step time, or is a bound: then what it is ranked by.
std::string evidence_mark(const Budget& b, const Span& span) {
  const std::string money = b.bound && b.money ? " and " + figure(b.ranked(*b.money)) : "";
  if (b.bound) return "  a bound, ranked as " + figure(span.of(b.ranked(b.days))) + " " + span.name + money;
  return b.published ? "" : "  no published step time";
}

/// The searched layouts of all phases, in the words of --axis; one if they are alike, empty if they were given.
std::string searched_layouts(const Option& o) {
  std::string out, last;
  for (const PricedPhase& p : o.phases) {
    if (!p.assessment.candidate.found) return "";
    const std::string text = short_layout(p.assessment.plan);
    if (text != last) out += (out.empty() ? "" : "; then ") + text;
    last = text;
  }
  return out;
}

/// What the lines of a table share.
struct Columns {
  std::size_t width = 30;
  Span span;
  std::string currency;  ///< of all lines; empty: each has its own
  std::size_t layout = 0;  ///< width of searched layouts; 0: there are none
};

std::string option_line(const Option& o, const Columns& c, bool fewest) {
  const Budget& b = o.budget;
  std::string out = "  " + padded(o.assessment().candidate.label, c.width) + aligned(figure(c.span.of(b.days.value)), 8);
  const bool own_currency = c.currency.empty() && b.money;
  out += aligned(money_short(b) + (own_currency ? currency_of(o.conditions()) : ""), 16);
  out += aligned(b.energy ? figure(b.energy->kwh.value / 1000) : "-", 9);
  out += aligned(percent(b.goodput), 9);
  if (b.in_time) out += aligned(likelihood(*b.in_time), 11);
  if (o.conditions().budget) out += aligned(b.in_budget ? likelihood(*b.in_budget) : "-", 11);
  const char* verdicts[] = {"", "  tight", "  too large"};
  const std::string marks = verdicts[static_cast<std::size_t>(b.memory)] + idle_mark(o) + evidence_mark(b, c.span) +
                            device_mark(o) + (fewest ? "  fewest devices that meet the limits" : "");
  if (c.layout > 0) out += "  " + padded(searched_layouts(o), marks.empty() ? 0 : c.layout);
  return out + marks + "\n";
}

std::string change_text(const Change& c, const Budget& before, const Span& span) {
  const auto beside = [](double now, double then) { return figure(now) + " (" + percent_text(now / then - 1) + ")"; };
  std::string out = beside(span.of(c.budget.days.value), span.of(before.days.value)) + " " + span.name;
  if (c.budget.money)
    out += ", money" + c.currency + " " + (before.money ? beside(c.budget.money->value, before.money->value) : figure(c.budget.money->value));
  if (c.budget.energy && before.energy)
    out += ", energy " + beside(c.budget.energy->kwh.value / 1000, before.energy->kwh.value / 1000) + " MWh";
  out += ", goodput " + percent(c.budget.goodput);
  return c.of_plan && c.tokens_per_step > 0 ? out + ", steps of " + count_text(c.tokens_per_step) + " tokens in " + time_text(c.budget.step_s.value) : out;
}

std::string what_if_line(const Change& c, const Budget& before) {
  const std::string what = "what if " + c.name + " = " + c.value;
  if (!c.refusal.empty()) return what + " cannot be: " + c.refusal + "\n";
  return what + ": " + change_text(c, before, span_of(before)) + (c.budget.memory == MemoryVerdict::too_large ? ", DOES NOT FIT" : "") +
         (c.note.empty() ? "" : "; " + c.note) + "\n";
}

/// A value of an input of --tornado.
std::string with_unit(const std::string& input, const std::string& value) {
  if (input == "step_time") return "x " + value;
  if (input == "failures") return value + " a day";
  return input == "downtime" || input == "save" ? value + " s" : value;
}

}  // namespace

std::string options_text(const Answer& a) {
  if (a.options.size() + a.too_large.size() < 2) return "";
  std::vector<const Option*> shown = best_of_each(a.options);
  const bool grouped = shown.size() < a.options.size();
  shown.resize(std::min(kShownOptions, shown.size()));
  const Option* fewest = a.fewest_devices();
  Columns c{30, span_of(a.best()->budget), common_currency(a.options)};
  for (const Option* o : shown) {
    c.width = std::max(c.width, o->assessment().candidate.label.size());
    c.layout = std::max(c.layout, searched_layouts(*o).size());
  }
  std::string out = padded(grouped ? "best of each cluster and size" : "plans, best first", c.width + 2) + aligned(c.span.name, 8) +
                    aligned("money" + c.currency, 16) +
                    aligned("MWh", 9) + aligned("goodput", 9) + (a.best()->budget.in_time ? aligned("in time", 11) : "") +
                    (a.best()->conditions().budget ? aligned("in budget", 11) : "") + (c.layout > 0 ? "  layout" : "") + "\n";
  for (const Option* o : shown) out += option_line(*o, c, o == fewest);
  if (a.options.size() > shown.size()) out += "  and " + std::to_string(a.options.size() - shown.size()) + " more that fit\n";
  std::map<std::string, std::size_t> unfit;
  for (const Option& o : a.too_large) ++unfit[o.assessment().plan.cluster.preset];
  for (const auto& [cluster, count] : unfit) out += "  " + std::to_string(count) + " do not fit the devices of " + cluster + "\n";
  return out;
}

std::string labels_text(std::vector<std::string> labels) {
  if (labels.size() <= kShownLabels) return list_text(labels);
  const std::string more = std::to_string(labels.size() - kShownLabels) + " more";
  labels.resize(kShownLabels);
  labels.push_back(more);
  return list_text(labels);
}

std::string refused_text(const Answer& a) {
  std::string out;
  const bool searched = a.best()->assessment().candidate.found.has_value();  // then every reason is of one place
  std::size_t shown = 0;
  for (const auto& [reason, labels] : a.refused) {
    if (shown++ == kShownReasons && !searched) return out + "  and " + std::to_string(a.refused.size() - kShownReasons) + " other reasons\n";
    out += "  " + labels_text(labels) + " cannot be: " + reason + "\n";
  }
  return out;
}

std::string what_if_text(const Answer& a) {
  std::string out;
  for (const Change& c : a.what_if) out += what_if_line(c, a.best()->budget);
  return out;
}

std::string tornado_text(const Answer& a) {
  if (a.tornado.empty()) return "";
  const Span span = span_of(a.best()->budget);
  std::string out = padded("what matters most", 20) + aligned("low", 17) + aligned("high", 17) + aligned(span.name, 18) +
                    aligned("money" + currency_of(a.best()->conditions()), 28) + "\n";
  for (const Sensitivity& s : a.tornado) {
    const Budget &l = s.low.budget, &h = s.high.budget;
    out += "  " + padded(s.input, 18) + aligned(with_unit(s.input, s.low.value), 17) + aligned(with_unit(s.input, s.high.value), 17) +
           aligned(figure(span.of(l.days.value)) + " to " + figure(span.of(h.days.value)), 18) +
           aligned(l.money ? money_short(l) + " to " + money_short(h) : money_short(l), 28) +
           (s.high.note.empty() ? "" : "  " + s.high.note) + "\n";
  }
  return out;
}

}  // namespace tandem::planning
