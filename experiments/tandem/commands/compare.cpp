#include "reports/compare/compare.hpp"

#include <CLI/CLI.hpp>
#include <optional>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/price_arguments.hpp"
#include "experiments/tandem/commands/compare_trace.hpp"
#include "experiments/tandem/commands/run_page.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "reports/compare/judgement.hpp"
#include "reports/trace/read_trace.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string first, html, csv;
  std::vector<std::string> others;
  bool json = false;
  std::optional<double> tolerance, memory_tolerance, step_time_s;
  std::optional<std::int64_t> rank, trace_steps;
};

/// Throws ConfigError about an option that is given and means nothing for this kind of file.
void require_absent(const std::string& option, bool given, const std::string& path, bool trace) {
  const std::string kind = trace ? "a trace of PyTorch's profiler" : "a timeline of Tandem";
  if (given) throw ConfigError(Problem{path, "", "", "is " + kind + ", for which " + option + " means nothing", "leave " + option + " out"});
}

TraceQuestion question_of(const Options& o) {
  require_absent("--memory-tolerance", o.memory_tolerance.has_value(), o.others.front(), true);
  return {{o.rank, o.trace_steps.value_or(1), o.step_time_s}, o.tolerance, o.html, o.csv, o.json};
}

/// Two runs by their traces.
ExitCode compare_runs_of(const Options& o, const std::vector<OpenFile>& newer, const std::vector<OpenFile>& others) {
  require_two_runs(o.first, o.others, others);
  const auto refuse = [&](const char* option, const char* remedy) {
    throw ConfigError(Problem{o.first, option, "", "means nothing for two runs: " + std::string(remedy), "leave it out"});
  };
  if (o.rank) refuse("--rank", "each trace stands for its own rank");
  if (o.step_time_s) refuse("--step-time", "both step times are measured by the traces");
  return compare_traced_runs(newer, others, question_of(o));
}

/// Refuses the name of a model preset, which is no file.
void require_no_preset(const std::string& path) {
  if (is_preset_path(path) || file_exists(path) || find_preset("models/presets", path).empty()) return;
  throw ConfigError(Problem{path, "", "", "is a model preset, and no timeline",
                            "give files that tandem simulate PLAN --timeline FILE and tandem train PLAN --timeline FILE wrote"});
}

ExitCode compare_files(const Options& o) {
  std::vector<std::string> inputs = o.others;
  inputs.push_back(o.first);
  prepare_outputs({o.html, o.csv}, inputs);
  const std::vector<OpenFile> first_files = open_files({o.first}), files = open_files(o.others);
  if (!first_files.front().file || looks_like_trace(*first_files.front().file)) return compare_runs_of(o, first_files, files);
  InputFile& newer = *first_files.front().file;
  if (are_traces(files)) return compare_with_traces({o.first, read_timeline(newer, o.first)}, files, question_of(o));
  const std::string& path = o.others.front();
  require_absent("--rank", o.rank.has_value(), path, false);
  require_absent("--trace-steps", o.trace_steps.has_value(), path, false);
  require_absent("--step-time", o.step_time_s.has_value(), path, false);
  const SavedTimeline first = read_timeline(newer, o.first), second = read_timeline(*files.front().file, path);
  require_comparable(first, second, o.first, path);
  const Comparison c = compare(first, second);
  const Tolerances tolerances{o.tolerance, o.memory_tolerance};
  require_judgeable(c, tolerances, o.first, path);
  const Judgement judgement = judge(c, tolerances);
  if (!o.csv.empty()) write_text(o.csv, to_csv(c));
  if (!o.html.empty()) write_text(o.html, comparison_page(o.first, first, path, second, c));
  o.json ? print_json(to_json(c, judgement)) : print(to_text(c, judgement));
  const bool outside = judgement.verdict == Verdict::outside;
  for (const std::string& reason : reasons(c, judgement)) outside ? print_error(reason) : log("tandem: undecided: " + reason);
  return outside ? ExitCode::tolerance : ExitCode::ok;
}

}  // namespace

void add_compare(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compare", "Compare a prediction with a run or with traces of PyTorch's profiler, or two runs by their timelines or traces");
  const auto is_file = [command](const std::string& path) {
    if (command->get_help_ptr()->count() == 0) require_no_preset(path);
  };
  command->add_option("SIM", o->first, "file of `tandem simulate --timeline`, or the newer of two runs or simulations: a timeline, a trace, or a folder with one trace of each rank")->required()->each(is_file);
  command->add_option("RUN", o->others, "file of `tandem train --timeline`, or the older run, the baseline; or traces of PyTorch's profiler (.json, .json.gz), one of each rank, or a folder of them")->required()->each(is_file);
  command->add_option("--html", o->html, "write an HTML page: where the time goes, every operation; of timelines also the steps, memory and loss")
      ->type_name("FILE");
  command->add_option("--csv", o->csv, "write all lines of the comparison as CSV")->type_name("FILE");
  command->add_option("--tolerance", o->tolerance,
                      "largest error of the step time (0.15 or 15%), else exit 6. For two runs: largest slowdown of the median step, "
                      "given the spread of the steps")
      ->type_name("FRACTION")->transform(share());
  command->add_option("--memory-tolerance", o->memory_tolerance, "the same for peak memory")->type_name("FRACTION")->transform(share());
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->option_defaults()->group("Traces of PyTorch's profiler");
  command->add_option("--rank", o->rank, "rank of a trace that does not say it")->type_name("INT")->check(CLI::NonNegativeNumber);
  command->add_option("--trace-steps", o->trace_steps, "number of steps in a trace without ProfilerStep annotations [1]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command->add_option("--step-time", o->step_time_s, "step time of the run without its profiler, which is judged in place of the trace's")
      ->type_name("SECONDS")->check(within(0, 1e6, false));
  command->callback([o, &exit] { exit = compare_files(*o); });
}

}  // namespace tandem::program
