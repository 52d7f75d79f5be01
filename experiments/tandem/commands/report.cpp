#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/folder.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/metrics_page.hpp"
#include "experiments/tandem/commands/run_page.hpp"
#include "experiments/tandem/study/report.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "reports/page/html_page.hpp"
#include "reports/page/plan_report.hpp"
#include "reports/prediction/plan_title.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string subject, out, cost_table, stack;
  bool json = false;
};

/// Unverified facts of the cluster and its calibration. A prediction lists both in its notes.
std::vector<std::string> unverified_facts(const Prediction& p) {
  const std::string mark = "not verified: ";
  std::vector<std::string> out;
  for (const std::string& note : p.notes)
    if (note.starts_with(mark)) out.push_back(note.substr(mark.size()));
  return out;
}

/// Refuses studies and other commands' output, so that their keys are not reported as misspelt plan fields.
void require_plan(const std::string& text, const std::string& path) {
  const nlohmann::json file = parse_json(text, path);
  if (!file.is_object() || file.contains("model")) return;
  if (file.contains("axes"))
    throw ConfigError(Problem{path, "", "", "is a study, not its results", "run tandem sweep on it, and give the folder that it writes"});
  if (!file.contains("schema_version")) return;
  throw ConfigError(Problem{path, "", "", "is a result of some command, not a plan or a timeline",
                            "give a plan, a file of `train --timeline`, `simulate --timeline` or `train --metrics`, or a folder of `sweep`"});
}

std::string plan_page(const Options& o, const std::string& text) {
  require_plan(text, o.subject);
  Waiting waiting("reading the plan");
  const PreparedPlan r = prepare_text(text, o.subject, o.stack);
  const auto topology = topology_of(r.plan, o.cost_table);
  tell_other_type(r.plan, *topology);
  sim::SimulateOptions options;
  options.timeline = options.memory_over_time = true;
  options.progress = [&](const std::string& what) { waiting.at("simulating " + what); };
  waiting.at("simulating");
  const Prediction p = naming(o.subject, [&] { return sim::simulate(r.plan, r.graph, *topology, options); });
  waiting.at("writing the page");
  const Device& device = topology->device();
  const std::string data = plan_report_json({r.plan, r.graph, p, device.name, device.usable_memory, unverified_facts(p)});
  return html_page("plan", title(r.plan) + " – Tandem", data);
}

std::string study_page(const Options& o) {
  const study::StudyReport report = study::read_report(o.subject);
  return html_page("study", report.name + " – Tandem", report.data);
}

void require_no_stack(const Options& o) {
  if (!o.stack.empty()) throw ConfigError(Problem{"", "--stack", o.stack, "is for a plan; results and timelines have their stacks", "leave it out"});
}

/// A checkpoint has weights and no losses.
[[noreturn]] void refuse_checkpoint(const std::string& path) {
  throw ConfigError(Problem{path, "", "", "holds weights, as `train --save` writes them, and no losses or times",
                            "give the file of `train --metrics` or `train --timeline`"});
}

/// Whether a folder has checkpoints, or is one.
bool is_checkpoint_folder(const std::string& path) {
  return !exec::checkpoint_names(path).empty() || file_exists(path + "/" + exec::rank_file(Rank(0)));
}

std::string file_page(const Options& o) {
  if (o.subject.ends_with(".safetensors")) refuse_checkpoint(o.subject);
  InputFile file(o.subject);
  const bool metrics = is_metrics(file);
  if (!metrics && !is_timeline(file)) return plan_page(o, file.whole(JsonLimits{}.max_bytes));
  require_no_stack(o);
  if (!o.cost_table.empty())
    throw ConfigError(Problem{"", "--cost-table", o.cost_table, "is for a plan, which is simulated; a run has its times", "leave it out"});
  return metrics ? metrics_page(o.subject, file) : run_page(o.subject, file);
}

std::string page(const Options& o, bool folder) {
  if (!folder) return file_page(o);
  if (is_checkpoint_folder(o.subject)) refuse_checkpoint(o.subject);
  require_no_stack(o);
  return study_page(o);
}

/// A default output file may only replace a file of its own kind.
void require_page_or_nothing(const std::string& path) {
  if (file_state(path).kind == FileKind::absent) return;
  constexpr std::size_t kMostBefore = std::size_t{1} << 20;  // a page's styles
  permit_replacing(path, path);
  if (InputFile(path).head(kMostBefore).find(kPageMark) == std::string_view::npos)
    throw ConfigError(Problem{path, "", "", "exists and is no page of Tandem", "name it with --out to replace it"});
}

ExitCode write_report(const Options& o) {
  require_plan_file(o.subject);
  if (const FileState state = file_state(o.subject); state.kind == FileKind::unknown)
    throw ConfigError(Problem{o.subject, "", "", why_unreadable(o.subject), "give a plan, a timeline, or a folder of `sweep`"});
  const bool folder = is_folder(o.subject);
  const std::string out = !o.out.empty() ? o.out
                          : folder       ? o.subject + "/report.html"
                                         : std::filesystem::path(o.subject).stem().string() + ".html";
  prepare_outputs({out}, {o.subject, o.cost_table});
  if (o.out.empty()) require_page_or_nothing(out);
  write_text(out, page(o, folder));
  if (!o.json && output_place(out).descriptor == STDOUT_FILENO) return ExitCode::ok;  // the page itself went to stdout
  o.json ? print_json(nlohmann::json{{"schema_version", 1}, {"page", out}}.dump(2) + "\n") : print(out + "\n");
  return ExitCode::ok;
}

}  // namespace

void add_report(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Write an HTML page about a plan, a run, a simulation or a sweep");
  command->add_option("PLAN|TIMELINE|DIR", o->subject, "plan file (JSON), a file of `train --timeline`, `simulate --timeline` or `train --metrics`, or a folder that `tandem sweep` has written")
      ->required();
  command->add_option("--out", o->out, "page to write [PLAN.html or TIMELINE.html here, DIR/report.html]")->type_name("FILE");
  add_cost_table(*command, o->cost_table, "for a plan: ");
  add_stack_option(*command, o->stack);
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->callback([o, &exit] { exit = write_report(*o); });
}

}  // namespace tandem::program
