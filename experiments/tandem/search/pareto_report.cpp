#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "experiments/tandem/search/report.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "experiments/tandem/search/switched.hpp"
#include "models/base/text.hpp"
#include "models/stack/resolve.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::search {

namespace {

using nlohmann::ordered_json;

const Space& space_of(const std::vector<Search*>& searches, const ParetoPoint& p) { return searches[p.search]->judge().space(); }

std::string money_text(double money) { return number_text(money, money < 1 ? 4 : 2); }

std::string objectives_text(const ParetoFront& front) {
  std::vector<std::string> names{"step time", "memory"};
  if (front.cost) names.push_back("cost");
  if (front.energy) names.push_back("energy");
  return list_text(names);
}

/// The currency of all prices; empty if they have several, or none is named.
std::string currency_of(const ParetoFront& front) {
  std::set<std::string> currencies;
  for (const Rates& r : front.rates)
    if (r.price) currencies.insert(r.currency);
  return currencies.size() == 1 ? *currencies.begin() : "";
}

/// "USD a step".
std::string cost_title(const ParetoFront& front) {
  const std::string currency = currency_of(front);
  return (currency.empty() ? "cost" : currency) + " a step";
}

ordered_json figure_json(const std::optional<double>& figure) { return figure ? ordered_json(*figure) : ordered_json(); }

ordered_json point_json(const std::vector<Search*>& searches, const ParetoPoint& p) {
  const Space& space = space_of(searches, p);
  const ClusterSpec& cluster = space.question().draft.plan.cluster;
  return {{"cluster", cluster.preset},
          {"devices", cluster.devices},
          {"at", at_json(space, p.step.id)},
          {"step_time_s", seconds(p.step.time_ps)},
          {"step_time_low_s", p.step.low_s},
          {"step_time_high_s", p.step.high_s},
          {"step_time_wider", p.step.wider},
          {"needed_bytes", p.step.needed},
          {"cost", figure_json(p.cost)},
          {"cost_without_idle", figure_json(p.cost_without_idle)},
          {"energy_kwh", figure_json(p.energy_kwh)},
          {"tokens_per_s", p.step.tokens_per_s},
          {"mfu", p.step.mfu},
          {"notes", notes_json(searches[p.search]->judge(), p.step)}};
}

ordered_json space_json(const Search& search, const Answer& answer, const Rates& rates) {
  const Plan plan = search.judge().space().plan(0);
  return {{"cluster", plan.cluster.preset},
          {"devices", plan.cluster.devices},
          {"stack", plan.stack.name + "@" + text_of(plan.stack.as_of)},
          {"candidates", answer.candidates},
          {"counts", counts_json(answer)},
          {"wrong_bounds", answer.wrong_bounds.size()},
          {"device_memory_bytes", search.judge().room()},
          {"device_hour_price", rates.price ? ordered_json(*rates.price) : ordered_json()},
          {"currency", rates.currency},
          {"step_time_bound", search.judge().is_bound()},
          {"idle_devices", rates.rented.idle},
          {"device_kilowatts", rates.kilowatts ? ordered_json(*rates.kilowatts) : ordered_json()},
          {"notes", lines_of(caveat_text(search.judge()))}};
}

ordered_json front_json(const std::vector<Search*>& searches, const ParetoFront& front) {
  const Space& first = searches.front()->judge().space();
  const Plan plan = first.plan(0);
  ordered_json spaces = ordered_json::array(), points = spaces, objectives = {"step_time_s", "needed_bytes"};
  for (std::size_t i = 0; i < searches.size(); ++i) spaces.push_back(space_json(*searches[i], front.answers[i], front.rates[i]));
  for (const ParetoPoint& p : front.points) points.push_back(point_json(searches, p));
  if (front.cost) objectives.push_back("cost");
  if (front.energy) objectives.push_back("energy_kwh");
  return {{"schema_version", 1},
          {"model", tandem::title(plan)},
          {"global_batch_size", plan.training.global_batch_size},
          {"seq_length", plan.training.seq_length},
          {"chosen", first.question().told},
          {"not_searched", first.question().unsearched},
          {"objectives", objectives},
          {"left_out", left_out(searches, front.rates)},
          {"complete", front.complete},
          {"interrupted", front.interrupted},
          {"spaces", spaces},
          {"pareto", points}};
}

/// Layouts of the front that differ only in what they compute again: the more, the slower, and the less memory.
struct Row {
  std::vector<const ParetoPoint*> points;  ///< fastest first
  const ParetoPoint& first() const { return *points.front(); }
  const ParetoPoint& last() const { return *points.back(); }
};

bool is_of_recomputation(const Axis& axis) { return axis.field.starts_with("training.recompute"); }

/// In the order of the front.
std::vector<Row> rows_of(const std::vector<Search*>& searches, const ParetoFront& front) {
  std::vector<Row> out;
  std::map<std::pair<std::size_t, CandidateId>, std::size_t> places;
  for (const ParetoPoint& p : front.points) {
    const Space& space = space_of(searches, p);
    CandidateId layout = p.step.id;
    for (std::size_t a = 0; a < space.axes().size(); ++a)
      if (is_of_recomputation(space.axes()[a])) layout = space.first_of(layout, a);
    const auto [at, added] = places.try_emplace({p.search, layout}, out.size());
    if (added) out.emplace_back();
    out[at->second].points.push_back(&p);
  }
  return out;
}

/// What both layouts have, or "from to to".
std::string from_to(const std::string& from, const std::string& to) { return from == to ? from : from + " to " + to; }

/// The cost of a step, and what it is without idle devices.
std::string cost_text(const ParetoPoint& p) {
  if (!p.cost) return "-";
  return money_text(*p.cost) + (*p.cost > *p.cost_without_idle ? " (" + money_text(*p.cost_without_idle) + ")" : "");
}

std::string energy_text(const ParetoPoint& p) { return p.energy_kwh ? number_text(1000 * *p.energy_kwh, 1) : "-"; }

/// "none", "full", "selective norm + mlp".
std::string recompute_text(const Space& space, CandidateId id) {
  std::string out;
  const std::ptrdiff_t idle = space.idle_axis(space.plan(id));
  for (std::size_t a = 0; a < space.axes().size(); ++a) {
    if (!is_of_recomputation(space.axes()[a]) || static_cast<std::ptrdiff_t>(a) == idle) continue;
    std::string value = space.value_text(id, a);
    std::erase_if(value, [](char c) { return c == '"' || c == '[' || c == ']'; });
    for (std::size_t at = 0; (at = value.find(',', at)) != std::string::npos; at += 3) value.replace(at, 1, " + ");
    out += (out.empty() ? "" : " ") + value;
  }
  return out;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

/// Fields of a row and their values, but for what is computed again.
Fields fields_of(const std::vector<Search*>& searches, const Row& row) {
  const Space& space = space_of(searches, row.first());
  Fields out;
  for (const std::size_t a : columns(space))
    if (!is_of_recomputation(space.axes()[a])) out.emplace_back(space.axes()[a].name, space.value_text(row.first().step.id, a));
  return out;
}

/// The fields that all rows have with one value.
Fields shared_fields(const std::vector<Fields>& rows) {
  Fields out = rows.empty() ? Fields{} : rows.front();
  for (const Fields& row : rows) {
    const auto lacks = [&](const auto& field) { return std::find(row.begin(), row.end(), field) == row.end(); };
    std::erase_if(out, lacks);
  }
  return out;
}

std::string fields_text(const Fields& fields, const Fields& left_out) {
  std::string out;
  for (const auto& field : fields)
    if (std::find(left_out.begin(), left_out.end(), field) == left_out.end())
      out += (out.empty() ? "" : ", ") + field.first + " " + field.second;
  return out;
}

/// The cells of a row between its number and its layout.
std::vector<std::string> cells_of(const Space& space, const ParetoFront& front, const Row& row) {
  const ParetoPoint &p = row.first(), &q = row.last();
  const auto step = [](const ParetoPoint& of) { return time_text(seconds(of.step.time_ps)); };
  std::vector<std::string> out{from_to(step(p), step(q)), from_to(bytes_text(p.step.needed), bytes_text(q.step.needed))};
  if (front.cost) out.push_back(from_to(cost_text(p), cost_text(q)));
  if (front.energy) out.push_back(from_to(energy_text(p), energy_text(q)));
  const Plan plan = space.plan(p.step.id);
  const std::string again = from_to(recompute_text(space, p.step.id), recompute_text(space, q.step.id));
  out.insert(out.end(), {std::to_string(plan.cluster.devices), plan.cluster.preset, std::to_string(plan.parallel.data), again});
  return out;
}

std::string rows_table(const std::vector<Search*>& searches, const ParetoFront& front, const std::vector<Row>& rows) {
  std::vector<std::string> head{"", "step", "memory"};
  if (front.cost) head.push_back(cost_title(front));
  if (front.energy) head.push_back("Wh a step");
  for (const char* word : {"devices", "cluster", "data", "recompute", "layout"}) head.push_back(word);
  std::vector<Fields> fields;
  for (const Row& row : rows) fields.push_back(fields_of(searches, row));
  const Fields shared = shared_fields(fields);
  Table table(std::move(head));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> row = cells_of(space_of(searches, rows[i].first()), front, rows[i]);
    row.insert(row.begin(), std::to_string(i + 1));
    row.push_back(fields_text(fields[i], shared));
    table.add(std::move(row));
  }
  return table.text() + (shared.empty() ? "" : "all rows: " + fields_text(shared, {}) + "\n");
}

/// That rows hold several layouts, which --json lists.
std::string grouped_text(const std::vector<Row>& rows) {
  const bool grouped = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.points.size() > 1; });
  return grouped ? "a to b: layouts that differ in what they compute again alone; --json and --html list each\n" : "";
}

/// Places whose steps are bounds beside others whose steps are predictions.
std::string bounds_text(const std::vector<Search*>& searches) {
  std::set<std::string> bounds;
  bool others = false;
  for (const Search* s : searches) {
    if (s->judge().is_bound()) bounds.insert(s->judge().space().question().draft.plan.cluster.preset);
    else others = true;
  }
  if (bounds.empty() || !others) return "";
  return "steps of " + list_text(std::vector<std::string>(bounds.begin(), bounds.end())) +
         " are bounds, the least of their ranges: the front compares the middle of these ranges\n";
}

/// That costs have idle devices of whole nodes, for one cluster and size.
std::string idle_text(const Search& search, const Rates& rates) {
  if (rates.rented.idle == 0 || !rates.price) return "";
  const ClusterSpec& c = search.judge().space().question().draft.plan.cluster;
  return count_text(c.devices) + " of " + c.preset + ": costs are of whole nodes, in brackets without their " +
         count_text(std::llround(rates.rented.idle)) + " idle devices\n";
}

}  // namespace

std::string to_text(const std::vector<Search*>& searches, const ParetoFront& front) {
  std::string out;
  for (const Search* s : searches) out += title(s->judge().space());
  out += question_text(searches.front()->judge().space().question());
  out += count_text(static_cast<std::int64_t>(front.points.size())) + " layouts, none of them better than another in " + objectives_text(front) +
         " at once:\n";
  HostLimited limited;
  SwitchedOn switched;
  std::vector<Row> rows = rows_of(searches, front);
  const std::size_t all = rows.size();
  rows.resize(std::min(all, static_cast<std::size_t>(searches.front()->options().best)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ParetoPoint& p = rows[i].first();
    limited.add(i + 1, searches[p.search]->judge(), p.step);
    switched.add(i + 1, space_of(searches, p), p.step.id);
  }
  if (!rows.empty()) out += rows_table(searches, front, rows);
  if (rows.size() < all)
    out += "and " + count_text(static_cast<std::int64_t>(all - rows.size())) + " more, slower: --best N shows more, --json and --html all\n";
  out += grouped_text(rows) + limited.text() + switched.text() + bounds_text(searches);
  std::set<std::string> caveats;
  for (const Search* s : searches) caveats.insert(caveat_text(s->judge()));
  for (const std::string& caveat : caveats) out += caveat;
  for (std::size_t i = 0; i < searches.size(); ++i) out += idle_text(*searches[i], front.rates[i]);
  if (front.interrupted) out += interrupted_text({searches.begin(), searches.end()});
  else if (!front.complete) out += "not all that could be on the front were simulated: --events N simulates more\n";
  for (std::size_t i = 0; i < searches.size(); ++i) {
    const ClusterSpec& c = searches[i]->judge().space().question().draft.plan.cluster;
    out += (searches.size() > 1 ? count_text(c.devices) + " of " + c.preset + ": " : std::string()) + counts_text(front.answers[i]);
  }
  return out;
}

std::string to_json(const std::vector<Search*>& searches, const ParetoFront& front) {
  return front_json(searches, front).dump(2) + "\n";
}

std::string page_json(const std::vector<Search*>& searches, const ParetoFront& front) {
  ordered_json out = front_json(searches, front);
  out["what"] = "tandem search report";
  out["currency"] = currency_of(front);
  out["reasons"] = ordered_json::object();
  for (std::size_t f = 0; f < kOutcomes; ++f) out["reasons"][std::string(name(static_cast<Outcome>(f)))] = meaning(static_cast<Outcome>(f));
  out["others"] = ordered_json::array();
  for (const ParetoPoint& p : front.others) out["others"].push_back(point_json(searches, p));
  return out.dump();
}

}  // namespace tandem::search
