#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "reports/trace/trace_comparison.hpp"
#include "reports/trace/trace_words.hpp"

namespace tandem {

namespace {

constexpr std::size_t kUnknown = 10;       ///< names of unknown kernels shown; --json has all
constexpr std::size_t kCollectives = 16;   ///< lines of collectives shown; --json has all
constexpr std::size_t kKernels = 12;       ///< kernels shown of two runs; --json and --csv have all
constexpr std::size_t kRanks = 16;         ///< ranks shown of a run; --json has all
constexpr std::size_t kLongestName = 100;

std::string share(double part, double whole) { return percent_text(whole > 0 ? part / whole : 0); }

std::string times(double first, double second) { return aligned(time_text(first), 13) + aligned(time_text(second), 13); }

std::string row(const std::string& what, double simulated, double measured, double step) {
  return padded(what, 46) + times(simulated, measured) + aligned(share(simulated - measured, step), 13) + "\n";
}

std::string rank_line(const TracedRank& r) {
  const auto& steps = r.steps.steps;
  const std::string names = steps.size() == 1 ? steps.front().name : steps.front().name + " to " + steps.back().name;
  const std::string stage = r.stage < 0 ? "" : ", stage " + std::to_string(r.stage);
  return "rank " + std::to_string(r.rank) + stage + (r.device.empty() ? "" : ", " + r.device) + ": " +
         std::to_string(steps.size()) + (steps.size() == 1 ? " step" : " steps") + " (" + names + "), " + time_text(r.measured.step_s) + ", idle " +
         share(r.measured.idle_s, r.measured.step_s) + "\n";
}

std::string rank_lines(const std::vector<TracedRank>& ranks, const std::string& side) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size() && i < kRanks; ++i) out += side + rank_line(ranks[i]);
  if (ranks.size() > kRanks) out += side + std::to_string(ranks.size() - kRanks) + " more ranks\n";
  return out;
}

std::string steps_table(const TraceComparison& c) {
  const double step = c.measured.step_s;
  const TraceWords w = words(c);
  std::string out = padded("per rank and step", 46) + aligned(w.first, 13) + aligned(w.second, 13) + aligned("of the step", 13) + "\n";
  out += padded("step", 46) + times(first_step_s(c), c.measured_step_s) + aligned(percent_text(c.error), 13) + "\n";
  out += row("the device computes", c.simulated.computing_s, c.measured.computing_s, step);
  out += row("communication that nothing hides", c.simulated.exposed_s, c.measured.exposed_s, step);
  out += row("the device idles", c.simulated.idle_s, c.measured.idle_s, step);
  return out;
}

std::string class_row(const std::string& cls, const WorkSum& simulated, const WorkSum& measured) {
  return padded(cls, 30) + aligned(calls_text(simulated.count), 8) + aligned(calls_text(measured.count), 8) +
         times(simulated.seconds, measured.seconds);
}

/// Heads of the two columns of counts.
std::string counts_head(const TraceComparison& c) {
  return aligned(c.of_two_runs ? "new" : "tasks", 8) + aligned(c.of_two_runs ? "before" : "kernels", 8) + "\n";
}

std::string lines_text(const std::string& title, const std::vector<ClassLine>& lines, const TraceComparison& c) {
  if (lines.empty()) return "";
  std::string out = "\n" + padded(title, 30) + counts_head(c);
  for (const ClassLine& l : lines) out += class_row(l.cls, l.simulated, l.measured) + aligned(percent_text(l.share), 13) + "\n";
  return out;
}

std::string class_table(const TraceComparison& c) {
  return lines_text("by class, what differs most first", c.classes, c) + class_row("all", c.simulated.work, c.measured.work) + "\n" +
         lines_text("computations by phase", c.phases, c);
}

std::string kernel_table(const TraceComparison& c) {
  if (c.kernels.empty()) return "";
  std::string out = "\n" + padded("by kernel, what differs most first", 38) + counts_head(c);
  for (std::size_t i = 0; i < c.kernels.size() && i < kKernels; ++i) {
    const KernelLine& l = c.kernels[i];
    out += padded(l.key.cls + (l.key.phase.empty() || l.key.phase == l.key.cls ? "" : ", " + l.key.phase), 38);
    out += aligned(calls_text(l.newer.count), 8) + aligned(calls_text(l.baseline.count), 8);
    out += times(l.newer.seconds, l.baseline.seconds) + aligned(percent_text(l.share), 13) + "  ";
    out += shortened(l.key.name, kLongestName) + "\n";
  }
  return out + (c.kernels.size() > kKernels ? std::to_string(c.kernels.size() - kKernels) + " more that differ less\n" : std::string());
}

std::string mean_text(const WorkSum& s) { return s.count > 0 ? time_text(s.seconds / s.count) : "-"; }

std::string collective_table(const TraceComparison& c) {
  if (c.collectives.empty()) return "";
  std::string out = "\n" + padded("collectives", 26) + aligned("ranks", 8) + aligned("bytes", 12);
  const char *calls = c.of_two_runs ? "new calls" : "calls", *mean = c.of_two_runs ? "new mean" : "mean time";
  for (const char* column : {calls, words(c).second, mean, words(c).second}) out += aligned(column, 13);
  out += "\n";
  for (std::size_t i = 0; i < c.collectives.size() && i < kCollectives; ++i) {
    const CollectiveLine& l = c.collectives[i];
    out += padded(l.key.kind + " " + (l.key.group.empty() ? "?" : l.key.group), 26);
    out += aligned(l.key.group_size > 0 ? std::to_string(l.key.group_size) : "?", 8);
    out += aligned(l.key.bytes > 0 ? bytes_text(l.key.bytes) : "?", 12);
    out += aligned(calls_text(l.simulated.count), 13) + aligned(calls_text(l.measured.count), 13);
    out += aligned(mean_text(l.simulated), 13) + aligned(mean_text(l.measured), 13) + "\n";
  }
  if (c.collectives.size() > kCollectives) out += std::to_string(c.collectives.size() - kCollectives) + " more\n";
  return out;
}

std::string unknown_table(const TraceComparison& c) {
  std::string out = c.unknown.empty() ? "" : "\nunknown kernels, most time first\n";
  for (std::size_t i = 0; i < c.unknown.size() && i < kUnknown; ++i)
    out += aligned(time_text(c.unknown[i].second.seconds), 10) + "  " + shortened(c.unknown[i].first, kLongestName) + "\n";
  return out + (c.unknown.size() > kUnknown ? std::to_string(c.unknown.size() - kUnknown) + " more\n" : std::string());
}

}  // namespace

std::string to_text(const TraceComparison& c, Verdict verdict, std::optional<double> tolerance) {
  std::string out;
  if (c.of_two_runs) out += rank_lines(c.newer, "new, ");
  out += rank_lines(c.ranks, c.of_two_runs ? "baseline, " : "");
  out += "\n" + steps_table(c) + class_table(c) + collective_table(c) + kernel_table(c) + unknown_table(c);
  if (tolerance)
    out += "\nstep time: " + (verdict == Verdict::undecided ? std::string("undecided whether within") : std::string(name(verdict))) + " the tolerance of " +
           number_text(100 * *tolerance, 1) + " %\n";
  if (!c.notes.empty()) out += "\n";
  for (const std::string& note : c.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace tandem
