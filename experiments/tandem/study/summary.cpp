#include "experiments/tandem/study/summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::study {

namespace {

using json = nlohmann::ordered_json;  // axes in the study's order

constexpr std::size_t kShown = 5;  // plans, the best and the next

struct Comparison {
  std::string name, figure;
  double predicted = 0, published = 0;
  double error() const { return predicted / published - 1; }
};

json rows_of(const std::vector<std::string>& lines) {
  json rows = json::array();
  for (const std::string& line : lines) rows.push_back(json::parse(line));
  return rows;
}

std::string place_text(const json& at) {
  std::string out;
  for (const auto& [axis, value] : at.items())
    out += (out.empty() ? "" : ", ") + axis + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

void compare(const json& point, const json& row, std::vector<Comparison>& out) {
  for (const auto& [figure, value] : point.items())
    if (value.is_number() && row.contains(figure) && row[figure].is_number())
      out.push_back(
          {point.value("name", place_text(point["at"])), figure, row[figure].get<double>(), value.get<double>()});
}

bool same_place(const json& a, const json& b) {
  return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
}

std::vector<Comparison> comparisons(const Study& study, const json& rows) {
  std::vector<Comparison> out;
  const json doc = json::parse(study.text);
  for (const json& point : doc.value("points", json::array()))
    for (const json& row : rows)
      if (same_place(row["at"], point["at"])) compare(point, row, out);
  return out;
}

/// Plans that fit (and are in time), best first: the cheapest if the study has a goal, else by model FLOP/s per device, which is
/// comparable across models and clusters.
std::vector<json> ranking(const json& rows, const std::optional<Goal>& goal) {
  std::vector<json> fitting;
  for (const json& row : rows)
    if (meets(row, goal)) fitting.push_back(row);
  std::stable_sort(fitting.begin(), fitting.end(),
                   [&](const json& a, const json& b) { return rank_of(a, goal) < rank_of(b, goal); });
  return fitting;
}

json best_of(const std::vector<json>& ranked) { return ranked.empty() ? json() : ranked.front(); }

/// What the neediest rank needs, which decides whether the plan fits, as in `simulate` and `plan`.
std::string memory_text(const json& row) {
  return bytes_text(row["needed_bytes"].get<std::int64_t>()) + " of " + bytes_text(row["device_memory_bytes"].get<std::int64_t>());
}

/// "9.33 s (8.71 s to 10.2 s)".
std::string step_text(const json& row) {
  return time_text(row["step_time_s"]) + " (" + time_text(row["step_time_low_s"]) + " to " + time_text(row["step_time_high_s"]) + ")";
}

/// What a bound is ranked by.
std::string bound_text(const json& row) {
  const double step = row["step_time_s"];
  return row.value("step_time_bound", false) ? "; a bound, ranked as a step of " + time_text(likely(row) * step) : "";
}

std::string whole(double n) { return n < 1e15 ? count_text(static_cast<std::int64_t>(std::llround(n))) : number_text(n, 0); }

/// "25.2 days (23.5 to 27.6)", and whether the wanted days may not be enough.
std::string days_text(const json& row, const std::optional<Goal>& goal) {
  const double high = row["training_days_high"];
  const bool late = goal && goal->days && row["in_time"] == true && high > *goal->days;
  return number_text(row["training_days"], 1) + " days (" + number_text(row["training_days_low"], 1) + " to " + number_text(high, 1) +
         (late ? ": may take more than " + number_text(*goal->days, 1) : "") + ")";
}

/// ", cost 387,250", and what it is without idle devices of whole nodes.
std::string cost_text(const json& row) {
  if (!row.contains("cost")) return "";
  const double idle = row.value("idle_devices", 0.0);
  return ", cost " + whole(row["cost"]) + (idle > 0 ? " (" + whole(row["cost_without_idle"]) + " without " + whole(idle) + " idle devices)" : "");
}

/// The cost of a row's whole training: "25.2 days (23.5 to 27.6) at a goodput of 90.0 %, 154,900 device hours".
std::string training_text(const json& row, const std::optional<Goal>& goal) {
  const double goodput = goal ? goal->goodput : 1;
  return days_text(row, goal) + " at a goodput of " + number_text(100 * goodput, 1) + " %, " + whole(row["device_hours"]) + " device hours" +
         cost_text(row);
}

std::string best_line(const json& row, const std::optional<Goal>& goal) {
  const std::string by = row.contains("training_days") ? "" : " by model FLOP/s per device";
  return "best" + by + ": " + place_text(row["at"]) + ": " + step_text(row) + " a step, " +
         number_text(row["model_tflops_per_device"], 1) + " TFLOP/s per device, " + memory_text(row) +
         (row.contains("training_days") ? "; " + training_text(row, goal) : "") + bound_text(row) + "\n";
}

/// Lists plans close to the best one as alternatives, since predictions are not exact enough to separate them.
std::string next_lines(const std::vector<json>& ranked, const std::optional<Goal>& goal) {
  std::string out;
  for (std::size_t i = 1; i < std::min(kShown, ranked.size()); ++i)
    out += "  " + padded(place_text(ranked[i]["at"]), 60) + "  " + aligned(step_text(ranked[i]), 27) +
           aligned(number_text(ranked[i]["model_tflops_per_device"], 1) + " TFLOP/s", 15) + "  " + memory_text(ranked[i]) +
           (ranked[i].contains("training_days") ? "  " + training_text(ranked[i], goal) : "") + bound_text(ranked[i]) + "\n";
  return out.empty() ? "" : "next best\n" + out;
}

/// What of the plans shown no record has, which makes their ranges wide.
std::string wider_lines(const std::vector<json>& ranked) {
  std::map<std::string, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < std::min(kShown, ranked.size()); ++i)
    if (const std::string why = ranked[i]["step_time_wider"]; !why.empty()) places[why].push_back(i);
  std::string out;
  for (const auto& [why, of] : places) {
    const bool best = of.front() == 0;
    const std::size_t next = of.size() - (best ? 1 : 0);
    out += "beyond the records, " + std::string(best ? "the best" : "") + (best && next > 0 ? " and " : "") +
           (next > 0 ? std::to_string(next) + " of the next" : "") + ": " + why + "\n";
  }
  return out;
}

/// What predictions for the devices of the plans shown should be read with, each once.
std::string device_lines(const std::vector<json>& ranked) {
  std::set<std::string> notes;
  for (std::size_t i = 0; i < std::min(kShown, ranked.size()); ++i) notes.insert(ranked[i]["device_note"].get<std::string>());
  std::string out;
  for (const std::string& note : notes)
    if (!note.empty()) out += note + "\n";
  return out;
}

/// The fitting plan that is done first; null if none has a time.
json fastest_of(const json& rows) {
  const std::vector<json> fitting = ranking(rows, std::nullopt);
  const auto fastest = std::min_element(fitting.begin(), fitting.end(),
                                        [](const json& a, const json& b) {
                                          return likely(a) * a["training_days"].get<double>() < likely(b) * b["training_days"].get<double>();
                                        });
  return fastest == fitting.end() ? json() : *fastest;
}

/// Where no plan is the answer: of plans that fit but are not in time, the fastest; if none fits, the one that exceeds its device's
/// memory least. Null if a plan fits and is in time, or none was predicted.
json nearest_of(const json& rows, const std::optional<Goal>& goal) {
  if (!ranking(rows, goal).empty()) return json();
  if (json fastest = fastest_of(rows); !fastest.is_null()) return fastest;
  const auto share = [](const json& row) { return row["needed_bytes"].get<double>() / row["device_memory_bytes"].get<double>(); };
  json nearest;
  for (const json& row : rows) {
    if (row["status"] == "ok") return json();
    if (row["status"] == "too large" && (nearest.is_null() || share(row) < share(nearest))) nearest = row;
  }
  return nearest;
}

/// The most frequent reason for a status, and how many plans have another one.
std::string reason_line(const json& rows, const std::string& status, std::size_t count) {
  std::map<std::string, std::size_t> reasons;
  for (const json& row : rows)
    if (row["status"] == status && !row.contains("step_time_s")) ++reasons[row["reason"].get<std::string>()];
  const auto most =
      std::max_element(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == reasons.end()) return "";
  const std::size_t others = count - most->second;
  return "    " + most->first + (others > 0 ? " (and " + std::to_string(others) + " for other reasons)" : "") + "\n";
}

std::string figure_text(const std::string& figure, double value) {
  if (figure.ends_with("_s") && figure.find("per_s") == figure.npos) return time_text(value);
  if (figure.ends_with("_bytes")) return bytes_text(static_cast<std::int64_t>(value));
  return number_text(value, 2);
}

std::string comparison_line(const Comparison& c) {
  return "  " + padded(c.name, 32) + padded(c.figure, 28) + aligned(figure_text(c.figure, c.published), 10) +
         aligned(figure_text(c.figure, c.predicted), 11) + aligned(number_text(100 * c.error(), 1) + " %", 9) + "\n";
}

}  // namespace

/// The stacks of the plans, each once.
std::string stacks_line(const json& rows) {
  std::set<std::string> stacks;
  for (const json& row : rows)
    if (row.contains("stack")) stacks.insert(row["stack"].get<std::string>());
  return stacks.empty() ? "" : "stack " + list_text(std::vector<std::string>(stacks.begin(), stacks.end())) + "\n";
}

std::string summary_text(const Study& study, const std::vector<std::string>& lines, const Tally& tally) {
  const json rows = rows_of(lines);
  std::string out = stacks_line(rows) + study.name + ": " + std::to_string(tally.points) + (tally.points == 1 ? " plan, " : " plans, ") +
                    std::to_string(tally.computed) + " computed, " + std::to_string(tally.kept) + " kept from before";
  // Axis values without effect (e.g. defaults) make plans that equal others.
  if (const std::size_t own = tally.computed + tally.kept, there = tally.points - tally.missing; there > own)
    out += ", " + std::to_string(there - own) + " the same as another";
  if (tally.missing > 0) out += ", " + std::to_string(tally.missing) + " still missing";
  out += "\n";
  for (const auto& [status, count] : tally.by_status)
    out += "  " + padded(status, 26) + std::to_string(count) + "\n" + reason_line(rows, status, static_cast<std::size_t>(count));
  const std::vector<json> ranked = ranking(rows, study.goal);
  if (!ranked.empty())
    out += best_line(ranked.front(), study.goal) + next_lines(ranked, study.goal) + wider_lines(ranked) + device_lines(ranked);
  const std::vector<Comparison> published = comparisons(study, rows);
  if (!published.empty())
    out += padded("published", 62) + aligned("published", 10) + aligned("predicted", 11) + aligned("error", 9) + "\n";
  for (const Comparison& c : published) out += comparison_line(c);
  return out;
}

std::string summary_json(const Study& study, const std::vector<std::string>& lines, const Tally& tally) {
  const json rows = rows_of(lines);
  json published = json::array();
  for (const Comparison& c : comparisons(study, rows))
    published.push_back({{"name", c.name},
                         {"figure", c.figure},
                         {"published", c.published},
                         {"predicted", c.predicted},
                         {"error", c.error()}});
  const json out = {{"schema_version", 1},          {"name", study.name},    {"points", tally.points},
                    {"computed", tally.computed},   {"kept", tally.kept},    {"missing", tally.missing},
                    {"by_status", tally.by_status}, {"best", best_of(ranking(rows, study.goal))}, {"nearest", nearest_of(rows, study.goal)}, {"published", published}};
  return out.dump(2) + "\n";
}

std::string nothing_found(const Study& study, const std::vector<std::string>& lines) {
  const json rows = rows_of(lines);
  if (rows.empty() || !ranking(rows, study.goal).empty()) return "";
  if (const json fastest = fastest_of(rows); !fastest.is_null())
    return "no plan of this study that fits is done in " + number_text(study.goal->days.value(), 1) + " days; the fastest is " +
           place_text(fastest["at"]) + ": " + days_text(fastest, study.goal);
  if (const json nearest = nearest_of(rows, study.goal); !nearest.is_null())
    return "no plan of this study fits its devices; nearest is " + place_text(nearest["at"]) + ": " + memory_text(nearest);
  return "no plan of this study can be: " + rows.front()["reason"].get<std::string>();
}

}  // namespace tandem::study
