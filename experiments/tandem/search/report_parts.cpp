#include "experiments/tandem/search/report_parts.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/tandem/planning/conditions.hpp"
#include "models/base/text.hpp"
#include "models/planfile/plan_advice.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"
#include "sim/cost/caveat.hpp"
#include "sim/result/nodes_note.hpp"

namespace tandem::search {

using nlohmann::ordered_json;

double seconds(std::int64_t ps) { return Duration::picoseconds(ps).seconds(); }

std::string title(const Space& space) {
  const Plan plan = space.plan(0);
  const std::string nodes = sim::nodes_note(plan.cluster);
  return tandem::title(plan) + " on " + count_text(plan.cluster.devices) + (plan.cluster.devices == 1 ? " device of " : " devices of ") +
         plan.cluster.preset + device_text(plan) + ", global batch " +
         count_text(plan.training.global_batch_size) + " x " + count_text(plan.training.seq_length) + " tokens, " + plan.training.precision + ", stack " +
         plan.stack.name + " as of " + text_of(plan.stack.as_of) + "\n" +
         (nodes.empty() ? "" : "note: " + nodes + "\n");
}

std::vector<std::size_t> columns(const Space& space) {
  std::vector<std::size_t> out;
  for (std::size_t a = 0; a < space.axes().size(); ++a)
    if (space.axes()[a].values.size() > 1) out.push_back(a);
  return out;
}

void Table::add(std::vector<std::string> row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::string out;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) out += "  " + aligned(row[i], words_last_ && i + 1 == widths_.size() ? 0 : widths_[i]);
    out += "\n";
  }
  return out;
}

std::string rows_text(const std::vector<std::string>& rows) { return (rows.size() == 1 ? "row " : "rows ") + list_text(rows); }

void HostLimited::add(std::size_t row, const Judge& judge, const Simulated& s) {
  if (host_limits(s.launches)) add(row, judge.fewer_launches(s.id), s);
}

void HostLimited::add(std::size_t row, const std::string& remedy, const Simulated& s) {
  Rows& of = by_remedy_[remedy];
  const std::int64_t percent = std::lround(100 * s.launches);
  of.rows.push_back(std::to_string(row));
  of.least = std::min(of.least, percent);
  of.most = std::max(of.most, percent);
}

std::string HostLimited::text() const {
  std::string out;
  for (const auto& [remedy, of] : by_remedy_) {
    const std::string share = (of.least == of.most ? "" : std::to_string(of.least) + " to ") + std::to_string(of.most) + " %";
    out += "the host limits the step, not the device, " + rows_text(of.rows) + ": it launches tasks for " + share +
           " of the time; what shortens it: " + remedy + "\n";
  }
  return out;
}

namespace {

double memory_error() {
  static const double error = planning::load_facts().memory_error;
  return error;
}

}  // namespace

bool is_tight(std::int64_t needed, std::int64_t room) {
  return needed <= room && static_cast<double>(needed) * (1 + memory_error()) > static_cast<double>(room);
}

std::string tight_reason() {
  return "predictions of memory were up to " + number_text(100 * memory_error(), 0) + " % below what was measured";
}

std::vector<std::string> notes_of(const Judge& judge, const Simulated& s) {
  std::vector<std::string> out;
  if (std::string note = judge.host_note(s); !note.empty()) out.push_back(std::move(note));
  if (is_tight(s.needed, judge.room())) out.push_back("memory is tight: " + tight_reason());
  return out;
}

ordered_json notes_json(const Judge& judge, const Simulated& s) { return notes_of(judge, s); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string caveat_text(const Judge& judge) {
  const std::string note = sim::caveat_note(judge.topology().device());
  return note.empty() ? "" : note + "\n";
}

std::string remarks_text(const std::string& what, const Remarks& remarks) {
  std::string out;
  for (const auto& [text, rows] : remarks) out += what + ", " + rows_text(rows) + ": " + text + "\n";
  return out;
}

std::string cut_off(const Space& space, const Answer& answer) {
  const std::ptrdiff_t at = space.axis_of("training.micro_batch_size");
  if (!space.question().chosen_micro_batches || at < 0 || answer.best.empty()) return "";
  const Plan plan = space.plan(answer.best.front().id);
  const std::int64_t most = std::stoll(space.axes()[static_cast<std::size_t>(at)].values.back().text);
  const std::int64_t each = plan.training.global_batch_size / std::max<std::int64_t>(1, plan.parallel.data);
  if (plan.training.micro_batch_size != most || each % (2 * most) != 0) return "";
  std::string out = "micro_batch_size=" + std::to_string(most);
  for (std::int64_t n = 2 * most; n <= 4 * most; n *= 2)
    if (each % n == 0) out += "," + std::to_string(n);
  return out;
}

std::string question_text(const Question& question) {
  std::string out, names, axes;
  for (const std::string& t : question.told) out += "chosen: " + t + "\n";
  for (const std::string& axis : question.unsearched) {
    names += (names.empty() ? "" : ", ") + axis.substr(0, axis.find('='));
    axes += " --axis " + axis;
  }
  return out + (names.empty() ? "" : "not searched: " + names + ";" + axes + " would search them\n");
}

std::string interrupted_text(const std::vector<const Search*>& searches) {
  std::int64_t settled = 0, groups = 0;
  for (const Search* s : searches) settled += s->settled_groups(), groups += s->judge().space().groups();
  return "interrupted: " + count_text(settled) + " of " + count_text(groups) +
         " groups looked at; a better layout may be among the others\n";
}

std::string wrong_bounds_text(const Search& search, const Answer& answer) {
  if (answer.wrong_bounds.empty()) return "";
  const auto count = static_cast<std::int64_t>(answer.wrong_bounds.size());
  return count_text(count) + (count == 1 ? " simulated layout is" : " simulated layouts are") +
         " below a lower bound on the step or the memory, so a better layout may have been left out. This is an error of Tandem: please "
         "report the command and this layout: " + search.judge().space().text(answer.wrong_bounds.front());
}

std::string counts_text(const Answer& answer) {
  std::string out = count_text(answer.candidates) + (answer.candidates == 1 ? " candidate\n" : " candidates\n");
  for (std::size_t f = 0; f < kOutcomes; ++f)
    if (answer.counts[f] > 0) out += "  " + padded(meaning(static_cast<Outcome>(f)), 46) + aligned(count_text(answer.counts[f]), 12) + "\n";
  return out;
}

ordered_json value_json(const std::string& text) {
  const ordered_json parsed = ordered_json::parse(text, nullptr, false);
  return parsed.is_discarded() ? ordered_json(text) : parsed;
}

ordered_json at_json(const Space& space, CandidateId id) {
  ordered_json out;
  const Choice chosen = space.choice(id);
  const Plan plan = space.plan(id);
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    const Axis& axis = space.axes()[a];
    const bool split = axis.field == kSplit;
    out[axis.field] = split ? ordered_json(find_field(kSplit)->write(plan)) : value_json(axis.values[chosen[a]].text);
  }
  for (const std::string& path : space.switched_on(id)) out[path] = ordered_json(find_field(path)->write(plan));
  out["parallel.data"] = plan.parallel.data;
  return out;
}

ordered_json counts_json(const Answer& answer) {
  ordered_json out;
  for (std::size_t f = 0; f < kOutcomes; ++f) out[std::string(name(static_cast<Outcome>(f)))] = answer.counts[f];
  return out;
}

}  // namespace tandem::search
