#include "experiments/tandem/search/report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/tandem/search/changes_report.hpp"
#include "experiments/tandem/search/own_layout.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "experiments/tandem/search/switched.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::search {

namespace {

using nlohmann::ordered_json;

/// What the columns of best_text() are.
std::string legend(const Judge& judge) {
  std::string fields = "dp data", split;
  for (const std::size_t a : columns(judge.space())) {
    const Axis& axis = judge.space().axes()[a];
    if (const std::string shorter = short_name(axis.field); shorter != axis.name) fields += ", " + shorter + " " + axis.name;
    if (axis.field == kSplit) split = "pipeline_split: layers of each stage, or chunk, in turn; 14 x 2: 14 that have 2\n";
  }
  return "memory: of the rank that needs most, of " + bytes_text(judge.room()) + "; MFU: share of the devices' peak FLOP rate\n" +
         "the other columns are fields of a plan, as --axis takes them: " + fields + "\n" + split;
}

std::string best_text(const Space& space, const Answer& answer) {
  std::vector<std::string> head{"", "step", "80 % range", "memory", "MFU", "dp"};
  for (const std::size_t a : columns(space)) head.push_back(short_name(space.axes()[a].field));
  Table table(std::move(head));
  for (std::size_t i = 0; i < answer.best.size(); ++i) {
    const Simulated& s = answer.best[i];
    const std::string range = time_text(s.low_s) + " to " + time_text(s.high_s), mfu = number_text(100 * s.mfu, 1) + " %";
    const std::string data = std::to_string(space.plan(s.id).parallel.data);
    std::vector<std::string> row{std::to_string(i + 1), time_text(seconds(s.time_ps)), range, bytes_text(s.needed), mfu, data};
    const std::ptrdiff_t idle = space.idle_axis(space.plan(s.id));
    for (const std::size_t a : columns(space))
      row.push_back(static_cast<std::ptrdiff_t>(a) == idle ? "-" : space.value_text(s.id, a));
    table.add(std::move(row));
  }
  return table.text();
}

/// Where the search was interrupted: layouts that it had estimated, best first.
std::string estimated_text(const Space& space, const Answer& answer) {
  if (answer.estimated.empty()) return answer.best.empty() ? "no layout that fits was estimated yet\n" : "";
  Table table({"estimate", "memory", "layout"});
  for (const Found& f : answer.estimated)
    table.add({time_text(seconds(f.estimate_ps)), f.memory > 0 ? bytes_text(f.memory) : "-", space.short_text(f.id)});
  return "estimated, not simulated:\n" + table.text();
}

/// Rows that fit only where the prediction of memory is not far too low.
std::string tight_text(const Judge& judge, const Answer& answer) {
  Remarks tight;
  for (std::size_t i = 0; i < answer.best.size(); ++i)
    if (is_tight(answer.best[i].needed, judge.room())) tight[tight_reason()].push_back(std::to_string(i + 1));
  return remarks_text("memory is tight", tight);
}

/// What of the best no record has.
std::string wider_text(const Answer& answer) {
  Remarks wider;
  for (std::size_t i = 0; i < answer.best.size(); ++i)
    if (const std::string& why = answer.best[i].wider; !why.empty()) wider[why].push_back(std::to_string(i + 1));
  return remarks_text("beyond the records", wider);
}

std::string host_text(const Judge& judge, const Answer& answer) {
  HostLimited limited;
  for (std::size_t i = 0; i < answer.best.size(); ++i) limited.add(i + 1, judge, answer.best[i]);
  return limited.text();
}

/// Whether a type is of numbers that most trainings keep in 32 bits, and has fewer.
bool is_narrow(const DTypes& types, DType DTypes::*type) {
  return (type == &DTypes::master || type == &DTypes::optimizer_state) && bits(types.*type) < 32;
}

/// Types that rows do not share, as where a stack keeps others with ZeRO than without: such rows train to other digits. Also narrow
/// masters and optimizer states.
std::string types_text(const Space& space, const Answer& answer) {
  constexpr std::pair<const char*, DType DTypes::*> kTypes[] = {
      {"compute", &DTypes::compute}, {"weights", &DTypes::weights}, {"gradients", &DTypes::gradients},
      {"gradient_reduce", &DTypes::gradient_reduce}, {"master", &DTypes::master}, {"optimizer_state", &DTypes::optimizer_state}};
  std::vector<DTypes> types;
  for (const Simulated& s : answer.best) types.push_back(space.plan(s.id).training.dtypes);
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::vector<std::string> own;
    const auto tells = [&](DType DTypes::*type) {
      const DType first = types.front().*type;
      return std::any_of(types.begin(), types.end(), [&](const DTypes& t) { return t.*type != first || is_narrow(t, type); });
    };
    for (const auto& [field, type] : kTypes)
      if (tells(type))
        own.push_back(std::string(field) + " " + std::string(name(types[i].*type)));
    if (!own.empty()) rows[list_text(own)].push_back(std::to_string(i + 1));
  }
  std::string out;
  for (const auto& [what, of] : rows) out += "training.dtypes of " + rows_text(of) + ": " + what + "\n";
  return out;
}

/// Which layouts are simulated follows from estimates, so where these are wrong a layout that was not may be faster.
std::string wrong_text(const Answer& answer) {
  double most = 0;
  for (const Simulated& s : answer.best)
    if (const Found& f = answer.estimates.at(s.id); f.estimated()) {
      const double off = static_cast<double>(f.estimate_ps) / static_cast<double>(s.time_ps) - 1;
      if (off > kTimeError || off < -kTimeBelow) most = std::max(most, std::abs(off));
    }
  if (most == 0) return "";
  return "estimates, which choose the layouts to simulate, are up to " + number_text(100 * most, 1) +
         " % wrong here: a layout that was not simulated may be that much faster\n";
}

ordered_json row_json(const Judge& judge, const Answer& answer, const Simulated& s) {
  const Space& space = judge.space();
  const Found& f = answer.estimates.at(s.id);
  const double time = seconds(s.time_ps), estimate = seconds(f.estimate_ps);
  return {{"at", at_json(space, s.id)},
          {"step_time_s", time},
          {"step_time_low_s", s.low_s},
          {"step_time_high_s", s.high_s},
          {"step_time_wider", s.wider},
          {"estimate_s", f.estimate_ps > 0 ? ordered_json(estimate) : ordered_json()},
          {"estimate_holds", f.outside == sim::Outside::nothing},
          {"difference", f.estimate_ps > 0 ? ordered_json(estimate / time - 1) : ordered_json()},
          {"needed_bytes", s.needed},
          {"tokens_per_s", s.tokens_per_s},
          {"mfu", s.mfu},
          {"notes", notes_json(judge, s)}};
}

ordered_json estimated_json(const Space& space, const Answer& answer) {
  ordered_json out = ordered_json::array();
  for (const Found& f : answer.estimated) out.push_back({{"at", at_json(space, f.id)},
                                                           {"estimate_s", seconds(f.estimate_ps)},
                                                           {"needed_bytes", f.memory > 0 ? ordered_json(f.memory) : ordered_json()}});
  return out;
}

std::string switched_text(const Space& space, const Answer& answer) {
  SwitchedOn switched;
  for (std::size_t i = 0; i < answer.best.size(); ++i) switched.add(i + 1, space, answer.best[i].id);
  return switched.text();
}

/// Ways to a faster step that the search left out, a line each.
std::string more_text(const Judge& judge, const Answer& answer, const std::optional<Fewer>& fewer) {
  if (answer.interrupted) return "";
  std::string out = faster_without_overlap(judge, answer);
  if (const std::string values = cut_off(judge.space(), answer); !values.empty())
    out += "not searched: micro_batch_size above that of row 1; --axis " + values + " would search more\n";
  if (!fewer) return out;
  const Simulated& first = answer.best.front();
  return out + count_text(fewer->devices) + " devices are faster: " + time_text(seconds(fewer->step.time_ps)) + " a step (" +
         percent_text(seconds(fewer->step.time_ps) / seconds(first.time_ps) - 1) + "); few layouts go into " +
         count_text(judge.space().plan(first.id).cluster.devices) + "\n";
}

}  // namespace

std::string to_text(const Search& search, const Answer& answer, const Changes& changes, const std::optional<Fewer>& fewer) {
  const Space& space = search.judge().space();
  std::string out = title(space);
  out += question_text(space.question());
  const Judge& judge = search.judge();
  if (!answer.best.empty())
    out += best_text(space, answer) + legend(judge) + types_text(space, answer) + wider_text(answer) +
           host_text(judge, answer) + tight_text(judge, answer) + wrong_text(answer) + switched_text(space, answer) +
           own_layout_text(search, answer) + more_text(judge, answer, fewer) + caveat_text(judge);
  if (answer.interrupted)
    out += estimated_text(space, answer) + interrupted_text({&search});
  else if (!answer.complete)
    out += "layouts that could be faster were not simulated: " + count_text(at(answer.counts, Outcome::left)) +
           " have no estimate, others one within its error; --events N simulates more\n";
  return out + changes_text(search, answer, changes) + counts_text(answer);
}

std::string to_json(const Search& search, const Answer& answer, const Changes& changes, const std::optional<Fewer>& fewer) {
  const Space& space = search.judge().space();
  const Plan plan = space.plan(0);
  ordered_json rows = ordered_json::array();
  for (const Simulated& s : answer.best) rows.push_back(row_json(search.judge(), answer, s));
  const ordered_json out = {
      {"schema_version", 1},
      {"model", tandem::title(plan)},
      {"cluster", plan.cluster.preset},
      {"devices", plan.cluster.devices},
      {"stack", plan.stack.name + "@" + text_of(plan.stack.as_of)},
      {"chosen", space.question().told},
      {"not_searched", space.question().unsearched},
      {"candidates", answer.candidates},
      {"counts", counts_json(answer)},
      {"complete", answer.complete},
      {"interrupted", answer.interrupted},
      {"wrong_bounds", answer.wrong_bounds.size()},
      {"device_memory_bytes", search.judge().room()},
      {"notes", lines_of(switched_text(space, answer) + own_layout_text(search, answer) + more_text(search.judge(), answer, fewer) +
                         caveat_text(search.judge()))},
      {"best", rows},
      {"estimated", estimated_json(space, answer)},
      {"unlimited", changes.unlimited ? placed_json(*changes.unlimited) : ordered_json()},
      {"changes", changes_json(changes)},
      {"changes_in_vain", changes.vain},
      {"changes_unended", changes.unended},
  };
  return out.dump(2) + "\n";
}

}  // namespace tandem::search
