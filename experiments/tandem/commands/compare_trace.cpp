#include "experiments/tandem/commands/compare_trace.hpp"

#include <algorithm>
#include <utility>

#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "reports/trace/read_trace.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

void require_simulated(const SavedTimeline& simulated, const std::string& path) {
  if (simulated.performer == Performer::simulated) return;
  throw ConfigError(Problem{path, "performer", "executed", "a trace is compared with a simulated timeline",
                            "write one with tandem simulate PLAN --timeline FILE"});
}

void require_one_rank(const std::vector<OpenFile>& traces, const TraceOptions& options) {
  if (traces.size() < 2 || !options.rank) return;
  throw ConfigError(Problem{traces[1].path, "--rank", std::to_string(*options.rank), "is the rank of one trace, and there are several",
                            "leave it out: of several traces each must say its own rank (distributedInfo)"});
}

}  // namespace

std::vector<OpenFile> open_files(const std::vector<std::string>& paths) {
  std::vector<OpenFile> out;
  for (const std::string& path : paths) out.push_back({path, std::make_unique<InputFile>(path)});
  return out;
}

bool are_traces(const std::vector<OpenFile>& files) {
  const auto is_trace = [](const OpenFile& f) { return looks_like_trace(*f.file); };
  const auto other = std::find_if_not(files.begin(), files.end(), is_trace);
  if (other == files.end()) return true;
  if (files.size() == 1) return false;
  throw ConfigError(Problem{other->path, "", "", "several files are compared only if all are traces of PyTorch's profiler, and this is none",
                            "give one timeline, or one trace of each rank"});
}

void require_timeline_first(const std::string& first, InputFile& file, const std::vector<OpenFile>& others) {
  if (!looks_like_trace(file)) return;
  const std::string& other = others.front().path;
  const bool swapped = !looks_like_trace(*others.front().file);
  throw ConfigError(Problem{first, "", "", "is a trace, and the first file must be a timeline of Tandem",
                            swapped ? "swap them: tandem compare " + other + " " + first
                                    : "two traces are compared through a simulated timeline (tandem simulate PLAN --timeline SIM): tandem compare SIM " +
                                          first + ", then tandem compare SIM " + other});
}

ExitCode compare_with_traces(const SimulatedFile& simulated, const std::vector<OpenFile>& traces, const TraceQuestion& question) {
  require_simulated(simulated.timeline, simulated.path);
  require_one_rank(traces, question.options);
  const Mesh mesh = make_mesh(parse_plan(simulated.timeline.plan_json, simulated.path));
  std::vector<TracedRank> ranks;  // one trace at a time is in memory
  for (const OpenFile& t : traces)
    ranks.push_back(traced_rank(simulated.timeline, mesh, read_trace(*t.file, t.path), question.options));
  const TraceComparison c = compare_ranks(std::move(ranks), question.options);
  const Verdict verdict = judge_step(c, question.tolerance);
  question.json ? print_json(to_json(c, verdict, question.tolerance)) : print(to_text(c, verdict, question.tolerance));
  if (verdict == Verdict::outside) print_error(reason_of(c, verdict, *question.tolerance));
  if (verdict == Verdict::undecided) log("tandem: undecided: " + reason_of(c, verdict, *question.tolerance));
  return verdict == Verdict::outside ? ExitCode::tolerance : ExitCode::ok;
}

}  // namespace tandem::program
