#include "reports/compare/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "models/base/text.hpp"
#include "reports/compare/cancelling.hpp"
#include "reports/compare/compare_words.hpp"
#include "reports/compare/joined_times.hpp"
#include "reports/compare/rank_differences.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

/// Largest difference of a recorded step from the median, as a share, without a note.
constexpr double kUsual = 0.05;

double relative_error(double simulated, double executed) {
  if (executed == 0) return simulated == 0 ? 0 : std::numeric_limits<double>::infinity();
  return (simulated - executed) / executed;
}

CompareLine line(const JoinedTime& t, Duration step) {
  const double share = step > Duration() ? (t.first - t.second).seconds() / step.seconds() : 0;
  return {t.what, t.tasks, t.first, t.second, relative_error(t.first.seconds(), t.second.seconds()), share};
}

std::vector<CompareLine> lines(const std::vector<JoinedTime>& times, Duration step) {
  std::vector<CompareLine> out;
  for (const JoinedTime& t : times) out.push_back(line(t, step));
  return out;
}

/// Sorts lines by difference, largest first; equal ones by time, longest first.
std::vector<CompareLine> by_weight(std::vector<CompareLine> all) {
  const auto weight = [](const CompareLine& l) { return std::abs((l.simulated - l.executed).ps()); };
  std::sort(all.begin(), all.end(), [&](const CompareLine& a, const CompareLine& b) {
    if (weight(a) != weight(b)) return weight(a) > weight(b);
    const Duration longer_a = std::max(a.simulated, a.executed), longer_b = std::max(b.simulated, b.executed);
    return longer_a != longer_b ? longer_a > longer_b : a.what < b.what;
  });
  return all;
}

/// "rank 5", "ranks 0 to 3", "ranks 0, 2, 6"; a long list is cut.
std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t kLongest = 27;
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  if (ranks.size() > 2 && ranks.back() - ranks.front() + 1 == static_cast<std::int64_t>(ranks.size()))
    return "ranks " + std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  std::string out = "ranks";
  for (std::size_t i = 0; i < ranks.size() && out.size() <= kLongest; ++i) out += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  return shortened(out, kLongest);
}

/// Ranks that compute for another time than before.
std::vector<CompareLine> rank_lines(const SavedTimeline& first, const SavedTimeline& second) {
  std::vector<CompareLine> out;
  for (const RankDifference& d : rank_differences(first, second))
    if (d.first != d.second) out.push_back(line({ranks_text(d.ranks), 0, d.first, d.second}, second.step_time));
  return out;
}

/// How long at least one task of the lane runs.
Duration covered(const SavedLane& lane) {
  std::vector<std::pair<Duration, Duration>> runs;
  runs.reserve(lane.spans.size());
  for (const SavedSpan& s : lane.spans) runs.emplace_back(s.started, s.ended);
  std::sort(runs.begin(), runs.end());
  Duration sum, end;
  for (const auto& [from, to] : runs) {
    const Duration begin = std::max(from, end);
    if (to > begin) sum += to - begin;
    end = std::max(end, to);
  }
  return sum;
}

/// Mean time of a rank's step in which none of its tasks runs.
Duration waiting(const SavedTimeline& t) {
  std::int64_t sum = 0, ranks = 0;
  for (const SavedLane& lane : t.lanes) {
    const auto n = static_cast<std::int64_t>(lane.ranks.size());
    sum += n * (t.step_time - std::min(t.step_time, covered(lane))).ps();
    ranks += n;
  }
  return Duration::picoseconds(ranks > 0 ? sum / ranks : 0);
}

/// Step times of a timeline. A simulated step has no spread; a run without a history has one step.
StepTimes times_of(const SavedTimeline& t) {
  const double step = t.step_time.seconds();
  if (t.performer == Performer::simulated) return {1, step, step, step};
  const StepTimes told = t.history ? step_times(*t.history) : StepTimes{};
  return told.steps > 0 ? told : StepTimes{1, step, step, step};
}

TypicalStep typical_of(const SavedTimeline& first, const SavedTimeline& second) {
  TypicalStep out{times_of(first), times_of(second)};
  out.error = relative_error(out.first.median_s, out.second.median_s);
  out.low = relative_error(out.first.low_s, out.second.high_s);
  out.high = relative_error(out.first.high_s, out.second.low_s);
  return out;
}

std::int64_t peak_bytes(const SavedTimeline& t) {
  std::int64_t most = 0;
  for (const SavedLane& lane : t.lanes) most = std::max(most, lane.arena_bytes.count());
  return most;
}

/// A note on a run whose recorded step differs from its median; else empty.
std::string unusual_note(const SavedTimeline& t, const StepTimes& times) {
  const double step = t.step_time.seconds(), off = relative_error(step, times.median_s);
  if (!t.history || times.steps < 2 || std::abs(off) <= kUsual) return "";
  return "step " + std::to_string(t.history->kept_step) + ", whose tasks these are, took " + time_text(step) + ", " + percent_text(off) +
         " of the median of " + std::to_string(times.steps) + " steps";
}

/// Notes on unusual steps, with the side if both may have one. A run that is compared with itself has one note.
std::vector<std::string> unusual_notes(const Comparison& c, const SavedTimeline& first, const SavedTimeline& second) {
  const std::string a = unusual_note(first, c.typical.first), b = unusual_note(second, c.typical.second);
  if (a == b || !of_one_performer(c)) return a == b ? std::vector{b} : std::vector{b, a};
  const auto named = [](const std::string& side, const std::string& note) { return note.empty() ? "" : side + ": " + note; };
  return {named(words(c).first, a), named(words(c).second, b)};
}

std::vector<std::string> notes_of(const Comparison& c, const SavedTimeline& first, const SavedTimeline& second) {
  std::vector<std::string> out = unusual_notes(c, first, second);
  if (c.cancelling) out.push_back(to_text(*c.cancelling, c));
  if (!of_one_performer(c) && first.measured_table && first.measured_table->empty())
    out.emplace_back("the simulation had no measured table of its device: its times are computed from published facts (tandem measure makes a table)");
  if (!c.by_rank) out.emplace_back("the layouts differ: times are means over the ranks of each, joined by the tasks' names, not task by task");
  if (!c.differences.empty()) out.push_back(twin_text(first, second));
  std::erase(out, "");
  return out;
}

}  // namespace

Comparison compare(const SavedTimeline& simulated, const SavedTimeline& executed) {
  Comparison c;
  c.first = simulated.performer;
  c.second = executed.performer;
  c.differences = plan_differences(simulated, executed);
  c.by_rank = same_places(c.differences);
  const JoinedTimes joined =
      c.by_rank ? joined_by_rank(simulated, executed) : joined_by_name(simulated, executed, same_stages(c.differences));
  const Duration step = executed.step_time;
  c.step = line({"step", 0, simulated.step_time, step}, step);
  c.typical = typical_of(simulated, executed);
  c.waiting = line({"waiting", 0, waiting(simulated), waiting(executed)}, step);
  c.kinds = by_weight(lines(joined.kinds, step));
  c.stages = lines(joined.stages, step);
  if (c.by_rank) c.ranks = rank_lines(simulated, executed);
  c.collectives = by_weight(lines(joined.collectives, step));
  c.operations = by_weight(lines(joined.operations, step));
  c.joined = joined.joined;
  c.only_simulated = joined.only_first;
  c.only_executed = joined.only_second;
  c.only_simulated_time = joined.only_first_time;
  c.only_executed_time = joined.only_second_time;
  c.simulated_peak_bytes = peak_bytes(simulated);
  c.executed_peak_bytes = peak_bytes(executed);
  c.memory_error = relative_error(static_cast<double>(c.simulated_peak_bytes), static_cast<double>(c.executed_peak_bytes));
  c.cancelling = cancelling(c);
  c.notes = notes_of(c, simulated, executed);
  return c;
}

}  // namespace tandem
