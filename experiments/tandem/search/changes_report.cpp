#include "experiments/tandem/search/changes_report.hpp"

#include <nlohmann/json.hpp>

#include "experiments/tandem/search/report.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "experiments/tandem/search/switched.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::search {

namespace {

using nlohmann::ordered_json;

std::string change_text(const Change& change) {
  std::string out;
  for (const auto& [field, value] : change.fields) {
    const std::string name = field.substr(field.find('.') + 1);
    out += (out.empty() ? "" : ", ") + (value == kLeftOut ? "no " + name : name + " " + value);
  }
  return out;
}

double over(double value, double base) { return value / base - 1; }
double step_s(const Placed& p) { return seconds(p.step.time_ps); }
double device_s(const Placed& p) { return p.device_s(); }

/// What the rows of changes have in common with those of other reports.
std::string change_remarks(const Changes& c) {
  Remarks tight, wider;
  HostLimited limited;
  SwitchedOn switched;
  for (std::size_t i = 0; i < c.found.size(); ++i) {
    const Placed& best = c.found[i].best;
    if (is_tight(best.step.needed, best.room)) tight[tight_reason()].push_back(std::to_string(i + 1));
    if (!best.step.wider.empty()) wider[best.step.wider].push_back(std::to_string(i + 1));
    if (!best.host_remedy.empty()) limited.add(i + 1, best.host_remedy, best.step);
    switched.add(i + 1, best.stack, best.switched_words);
  }
  return remarks_text("beyond the records", wider) + limited.text() + remarks_text("memory is tight", tight) + switched.text();
}

/// "64 devices", "on dgx-h200", "offload.optimizer true".
std::string remedy_text(const Change& change) {
  const auto& [field, value] = change.fields.front();
  if (field == "cluster.devices") return count_text(std::stoll(value)) + " devices";
  return field == "cluster.preset" ? "cluster " + value : change_text(change);
}

/// What time did not suffice for, and what was in vain.
std::string tried_text(const Changes& c) {
  std::vector<std::string> rows, unended = c.unended;
  for (std::size_t i = 0; i < c.found.size(); ++i)
    if (!c.found[i].ended) rows.push_back(std::to_string(i + 1));
  if (!rows.empty()) unended.push_back("a faster layout for " + rows_text(rows));
  std::string out = c.vain.empty() ? "" : "tried in vain: " + list_text(c.vain) + "\n";
  if (!unended.empty())
    out += "not tried to the end in " + number_text(c.seconds, 0) + " s: " + list_text(unended) + "; --changes SECONDS tries longer\n";
  return out;
}

}  // namespace

std::string would_fit(const Search& search, const Answer& answer, const Changes& changes) {
  const Space& space = search.judge().space();
  const ClusterSpec& cluster = space.question().draft.plan.cluster;
  const std::string devices = cluster.devices == 1 ? "the one device of " : "each of " + count_text(cluster.devices) + " devices of ";
  std::string out = "no layout fits the " + bytes_text(search.judge().room()) + " of " + devices + cluster.preset;
  if (!devices_text(search, answer).empty() || !changes.possible) return "no layout can run";
  std::vector<std::string> remedies;
  for (const Change& c : changes.found) remedies.push_back(remedy_text(c));
  if (remedies.empty()) return out + ", and no change that was tried makes one fit";
  return out + "; what would fit, the cheapest first: " + list_text(remedies, "or");
}

std::string changes_text(const Search& search, const Answer& answer, const Changes& c) {
  if (!c.asked) return "";
  if (std::string devices = devices_text(search, answer); !devices.empty()) return devices;
  if (!c.possible) return "no layout could run, whatever the memory:\n" + obstacles_text(search, answer);
  std::string out = would_fit(search, answer, c) + "\n";
  const auto against = [&](double value, double (*of)(const Placed&)) {
    return c.unlimited ? percent_text(over(value, of(*c.unlimited))) : "-";
  };
  if (!c.found.empty()) {
    Table table({"", "change", "step", "time", "device time", "memory", "layout"});
    for (std::size_t i = 0; i < c.found.size(); ++i) {
      const Placed& best = c.found[i].best;
      table.add({std::to_string(i + 1), change_text(c.found[i]), time_text(step_s(best)), against(step_s(best), step_s),
                 against(best.device_s(), device_s), bytes_text(best.step.needed), best.at});
    }
    out += table.text();
  }
  if (const std::optional<Placed>& u = c.unlimited)
    out += std::string(c.found.empty() ? "" : "time and device time: over ") + "the fastest step without a limit of memory" +
           (c.found.empty() ? ": " : ", ") + time_text(step_s(*u)) + " with " + bytes_text(u->step.needed) + " a device" +
           (u->at.empty() ? "" : " (" + u->at + ")") + "\n";
  return out + tried_text(c) + change_remarks(c);
}

ordered_json placed_json(const Placed& p) {
  return {{"layout", p.at},
          {"cluster", p.cluster},
          {"devices", p.devices},
          {"step_time_s", seconds(p.step.time_ps)},
          {"step_time_wider", p.step.wider},
          {"needed_bytes", p.step.needed},
          {"device_memory_bytes", p.room},
          {"switched_on", p.switched_on},
          {"notes", p.notes}};
}

ordered_json changes_json(const Changes& c) {
  ordered_json out = ordered_json::array();
  for (const Change& change : c.found) {
    ordered_json row = {{"change", ordered_json::object()}};
    for (const auto& [field, value] : change.fields) row["change"][field] = value_json(value);
    row.update(placed_json(change.best));
    row["ended"] = change.ended;
    row["time_over_unlimited"] = c.unlimited ? ordered_json(over(step_s(change.best), step_s(*c.unlimited))) : ordered_json();
    row["device_time_over_unlimited"] = c.unlimited ? ordered_json(over(change.best.device_s(), c.unlimited->device_s())) : ordered_json();
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace tandem::search
