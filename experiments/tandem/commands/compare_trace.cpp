#include "experiments/tandem/commands/compare_trace.hpp"

#include <algorithm>
#include <utility>

#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/output.hpp"
#include "reports/page/html_page.hpp"
#include "reports/trace/read_trace.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

void require_simulated(const SavedTimeline& simulated, const std::string& path) {
  if (simulated.performer == Performer::simulated) return;
  throw ConfigError(Problem{path, "performer", "executed", "a trace is compared with a simulated timeline",
                            "write one with tandem simulate PLAN --timeline FILE"});
}

constexpr std::int64_t kSpread = 3;  ///< steps of a trace that show a spread

/// The traces in a folder, by name.
void add_folder(const std::string& folder, std::vector<OpenFile>& files) {
  const FolderEntries found = folder_entries(folder);
  if (found.reason) throw ConfigError(Problem{folder, "", "", "cannot be read: " + found.reason.message(), "check its permissions"});
  const std::size_t before = files.size();
  for (const std::string& name : found.names) {
    const std::string path = folder + (folder.ends_with('/') ? "" : "/") + name;
    if (!is_regular_file(path)) continue;
    InputFile file(path);
    if (looks_like_trace(file)) files.push_back({path, nullptr});
  }
  if (files.size() == before)
    throw ConfigError(Problem{folder, "", "", "has no trace of PyTorch's profiler (.json or .json.gz)", "give the folder that has one trace of each rank"});
}

DeviceTrace read(const OpenFile& trace) {
  if (trace.file) return read_trace(*trace.file, trace.path);
  InputFile file(trace.path);
  return read_trace(file, trace.path);
}

/// A change of the step time is judged by the spread of steps; without one it says nothing.
void require_spread(const std::vector<TracedRank>& run) {
  for (const TracedRank& r : run)
    if (const auto steps = static_cast<std::int64_t>(r.steps.steps.size()); steps < kSpread)
      throw ConfigError(Problem{r.file, "ProfilerStep", std::to_string(steps), "traced steps are too few to tell a change of the step time from chance",
                                "record at least " + std::to_string(kSpread) + " steps, or leave --tolerance out"});
}

/// Writes and prints a comparison, and says how it is judged.
ExitCode answer(const TraceComparison& c, const TraceQuestion& question) {
  const Verdict verdict = judge_step(c, question.tolerance);
  const std::string json = to_json(c, verdict, question.tolerance);
  if (!question.html.empty()) write_text(question.html, html_page("trace", c.of_two_runs ? "Traces of two runs – Tandem" : "Simulation and traces – Tandem", json));
  if (!question.csv.empty()) write_text(question.csv, to_csv(c));
  question.json ? print_json(json) : print(to_text(c, verdict, question.tolerance));
  if (verdict == Verdict::outside) print_error(reason_of(c, verdict, *question.tolerance));
  if (verdict == Verdict::undecided) log("tandem: undecided: " + reason_of(c, verdict, *question.tolerance));
  return verdict == Verdict::outside ? ExitCode::tolerance : ExitCode::ok;
}

void require_one_rank(const std::vector<OpenFile>& traces, const TraceOptions& options) {
  if (traces.size() < 2 || !options.rank) return;
  throw ConfigError(Problem{traces[1].path, "--rank", std::to_string(*options.rank), "is the rank of one trace, and there are several",
                            "leave it out: of several traces each must say its own rank (distributedInfo)"});
}

}  // namespace

std::vector<OpenFile> open_files(const std::vector<std::string>& paths) {
  std::vector<OpenFile> out;
  for (const std::string& path : paths)
    if (is_folder(path)) add_folder(path, out);
    else out.push_back({path, std::make_unique<InputFile>(path)});
  return out;
}

bool are_traces(const std::vector<OpenFile>& files) {
  const auto is_trace = [](const OpenFile& f) { return !f.file || looks_like_trace(*f.file); };
  const auto other = std::find_if_not(files.begin(), files.end(), is_trace);
  if (other == files.end()) return true;
  if (files.size() == 1) return false;
  throw ConfigError(Problem{other->path, "", "", "several files are compared only if all are traces of PyTorch's profiler, and this is none",
                            "give one timeline, or one trace of each rank"});
}

void require_two_runs(const std::string& newer, const std::vector<std::string>& others, const std::vector<OpenFile>& files) {
  if (files.size() == 1 && files.front().file && !looks_like_trace(*files.front().file))
    throw ConfigError(Problem{newer, "", "", "is a trace, and the first file must be a timeline of Tandem",
                              "swap them: tandem compare " + others.front() + " " + newer});
  if (others.size() > 1)
    throw ConfigError(Problem{others[1], "", "", "two runs are compared, and this would be a third",
                              "put the traces of each run into a folder: tandem compare NEWFOLDER OLDFOLDER"});
}

ExitCode compare_with_traces(const SimulatedFile& simulated, const std::vector<OpenFile>& traces, const TraceQuestion& question) {
  require_simulated(simulated.timeline, simulated.path);
  require_one_rank(traces, question.options);
  const Mesh mesh = make_mesh(parse_plan(simulated.timeline.plan_json, simulated.path));
  std::vector<TracedRank> ranks;  // one trace at a time is in memory
  for (const OpenFile& t : traces) ranks.push_back(traced_rank(simulated.timeline, mesh, read(t), question.options));
  return answer(compare_ranks(std::move(ranks), question.options), question);
}

ExitCode compare_traced_runs(const std::vector<OpenFile>& newer, const std::vector<OpenFile>& baseline,
                             const TraceQuestion& question) {
  std::vector<TracedRank> runs[2];
  for (const OpenFile& t : newer) runs[0].push_back(traced_alone(read(t), question.options));
  for (const OpenFile& t : baseline) runs[1].push_back(traced_alone(read(t), question.options));
  if (question.tolerance)
    for (const std::vector<TracedRank>& run : runs) require_spread(run);
  return answer(compare_runs(std::move(runs[0]), std::move(runs[1])), question);
}

}  // namespace tandem::program
