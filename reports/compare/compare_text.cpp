#include "reports/compare/compare_words.hpp"
#include "reports/compare/judgement.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

constexpr std::size_t kRanks = 5;
constexpr std::size_t kOperations = 10;  ///< shown in the text; --json and the page have all

/// A line of the table; an empty share of the step is left out.
std::string row(const std::string& what, std::int64_t tasks, double first_s, double second_s, double error,
                const std::string& share) {
  return padded(what, 28) + aligned(tasks ? std::to_string(tasks) : "", 10) + aligned(time_text(first_s), 13) +
         aligned(time_text(second_s), 13) + aligned(percent_text(error), 11) + (share.empty() ? "" : aligned(share, 13)) + "\n";
}

std::string row(const CompareLine& line) {
  return row(line.what, line.tasks, line.simulated.seconds(), line.executed.seconds(), line.error, percent_text(line.share));
}

std::string section(const std::string& title, const std::vector<CompareLine>& lines, std::size_t most) {
  std::string out = lines.empty() ? "" : "\n" + title + "\n";
  for (std::size_t i = 0; i < lines.size() && i < most; ++i) out += row(lines[i]);
  if (lines.size() > most) out += std::to_string(lines.size() - most) + " more that differ less\n";
  return out;
}

/// The medians, if a run has more than one recorded step.
std::string medians(const TypicalStep& t) {
  if (t.first.steps < 2 && t.second.steps < 2) return "";
  std::string of = std::to_string(t.second.steps < 2 ? t.first.steps : t.second.steps);
  if (t.first.steps > 1 && t.second.steps > 1 && t.first.steps != t.second.steps) of = std::to_string(t.first.steps) + " and " + of;
  return row("median of " + of + " steps", 0, t.first.median_s, t.second.median_s, t.error, "");
}

std::string differences(const Comparison& c, const CompareWords& w) {
  if (c.differences.empty()) return "";
  const auto value = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  std::string out = "\nthe plans differ\n";
  for (const PlanDifference& d : c.differences)
    out += padded(d.field, 38) + w.first + " " + value(d.first) + ", " + w.second + " " + value(d.second) + "\n";
  return out;
}

/// Tasks without a counterpart, and the time that they take.
std::string unmatched(std::int64_t tasks, Duration time) {
  return std::to_string(tasks) + (tasks > 0 ? " (" + time_text(time.seconds()) + " per rank)" : std::string());
}

std::string verdict(const Comparison& c, const Judgement& j) {
  if (j.step_time == Verdict::not_asked) return "";
  const std::string word = j.step_time == Verdict::undecided ? "undecided whether within" : std::string(name(j.step_time));
  std::string out = "step time: " + word + " the tolerance of " + number_text(100 * *j.tolerances.step_time, 1) + " %";
  if (c.typical.low != c.typical.high)
    out += "; by the spread of the steps from " + percent_text(c.typical.low) + " to " + percent_text(c.typical.high);
  return out + "\n";
}

}  // namespace

std::string to_text(const Comparison& c, const Judgement& j) {
  const CompareWords w = words(c);
  std::string out = padded("per rank and step", 28) + aligned("tasks", 10) + aligned(w.first, 13) + aligned(w.second, 13) +
                    aligned(w.difference, 11) + aligned("of the step", 13) + "\n";
  out += row("step", 0, c.step.simulated.seconds(), c.step.executed.seconds(), c.step.error, "") + medians(c.typical) + row(c.waiting);
  out += section("by kind of operation", c.kinds, c.kinds.size()) + section("by stage", c.stages, c.stages.size()) +
         section("by rank, time that it computes, what differs most first", c.ranks, kRanks) +
         section("by collective", c.collectives, c.collectives.size()) +
         section("by operation, what differs most first", c.operations, kOperations);
  out += differences(c, w);
  out += "\nmemory, arena of the heaviest rank: " + w.first + " " + bytes_text(c.simulated_peak_bytes) + ", " + w.second + " " +
         bytes_text(c.executed_peak_bytes) + ", " + w.difference + " " + percent_text(c.memory_error) + "\n";
  out += "tasks joined " + std::to_string(c.joined) + ", only " + w.first + " " + unmatched(c.only_simulated, c.only_simulated_time) +
         ", only " + w.second + " " + unmatched(c.only_executed, c.only_executed_time) + "\n" + verdict(c, j);
  for (const std::string& note : c.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace tandem
