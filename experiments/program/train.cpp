#include <CLI/CLI.hpp>
#include <cstdio>

#include "exec/run.hpp"
#include "experiments/program/commands.hpp"
#include "experiments/program/rehearsal.hpp"
#include "experiments/program/terminal.hpp"
#include "experiments/program/train_report.hpp"
#include "reports/chrome_trace.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string plan, data, trace, timeline;
  std::string backend = "cpu", launch = "threads";
  std::int64_t steps = 0;
  std::int64_t timeline_step = -1;   ///< -1: the last
  bool json = false;
};

/// What the design foresees and this version has not.
void require_available(const Options& o) {
  std::vector<Problem> problems;
  if (o.backend != "cpu") problems.push_back({"", "--backend", o.backend, "not implemented in this version", "use cpu"});
  if (o.launch != "threads")
    problems.push_back({"", "--launch", o.launch, "not implemented in this version", "use threads"});
  if (!problems.empty()) throw InfeasibleError(problems);
}

void require_vocabulary(const exec::TokenSource& data, const Plan& plan) {
  if (data.vocab_size() <= plan.model.vocab_size) return;
  throw ConfigError(Problem{plan.file, "model.vocab_size", std::to_string(plan.model.vocab_size),
                            "the data has " + std::to_string(data.vocab_size()) + " different tokens",
                            "use at least " + std::to_string(data.vocab_size())});
}

std::string step_line(const exec::StepResult& s) {
  char text[160];
  std::snprintf(text, sizeof text, "step %5lld  loss %8.5f  grad norm %9.4f  lr %.3e  %9.2f ms",
                static_cast<long long>(s.step), s.loss, s.grad_norm, s.learning_rate, s.step_time_s * 1e3);
  return text;
}

exec::RunOptions run_options(const Options& o, const Plan& plan) {
  exec::RunOptions options;
  options.steps = plan.training.steps;
  const bool kept = !o.trace.empty() || !o.timeline.empty();
  options.timeline_step = !kept ? -1 : o.timeline_step >= 0 ? o.timeline_step : options.steps - 1;
  return options;
}

void require_step_exists(const Options& o, const Plan& plan) {
  if (o.timeline_step < plan.training.steps) return;
  throw ConfigError(Problem{"", "--timeline-step", std::to_string(o.timeline_step),
                            "the run has steps 0 to " + std::to_string(plan.training.steps - 1), ""});
}

void write_files(const Options& o, const TaskGraph& graph, const exec::RunResult& result) {
  if (!result.timeline) return;
  for (const std::string& path : {o.trace, o.timeline})
    if (!path.empty()) prepare_output(path);
  const Timeline timeline = timeline_of(result);
  if (!o.trace.empty()) save_chrome_trace(timeline, graph, o.trace);
  if (!o.timeline.empty()) save_timeline(timeline, graph, o.timeline);
}

/// Runs to the end or to Ctrl-C; then the result holds the steps that were finished and `interrupted` is set.
struct Run {
  exec::RunResult result;
  bool interrupted = false;
};

Run run(const Rehearsal& r, const exec::TokenSource& data, exec::RunOptions options) {
  const InterruptWatch watch;
  Progress progress(options.steps);
  Run out;
  std::vector<exec::StepResult> finished;
  options.on_step = [&](const exec::StepResult& s) {
    finished.push_back(s);
    log(step_line(s));
    progress.done(s.step + 1);
    if (InterruptWatch::pressed() && s.step + 1 < options.steps) throw Interrupted();
  };
  try {
    out.result = naming(r.plan.file, [&] { return exec::run(r.plan, r.graph, data, options); });
  } catch (...) {
    if (!InterruptWatch::pressed()) throw;
    out.interrupted = true;
    out.result.steps = finished;
  }
  return out;
}

ExitCode train(const Options& o) {
  require_available(o);
  Rehearsal r = prepare(o.plan);
  if (o.steps > 0) r.plan.training.steps = o.steps;
  require_step_exists(o, r.plan);
  const auto data = exec::open_byte_text(o.data, r.plan.sequence_tokens(), r.plan.training.seed);
  require_vocabulary(*data, r.plan);
  const Run done = run(r, *data, run_options(o, r.plan));
  write_files(o, r.graph, done.result);
  TrainReport report = summarise(r.plan, done.result);
  report.bigram_entropy_nats = exec::bigram_entropy(o.data);
  print(o.json ? to_json(report) : to_text(report));
  return done.interrupted ? ExitCode::interrupted : ExitCode::ok;
}

}  // namespace

void add_train(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Really train a plan");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required();
  command->add_option("--data", o->data, "text file, read as byte tokens")->required();
  command->add_option("--steps", o->steps, "optimizer steps [the plan's]")->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--trace", o->trace, "write a Chrome trace of one step for Perfetto");
  command->add_option("--timeline", o->timeline, "write every task's times of one step, for compare and plot_timeline.py");
  command->add_option("--timeline-step", o->timeline_step, "the step that is kept, counted from 0 [the last]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}));
  command->add_option("--backend", o->backend, "what computes [cpu]")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--launch", o->launch, "what ranks are [threads]")->check(CLI::IsMember({"threads", "mpi", "env"}));
  command->callback([o, &exit] { exit = train(*o); });
}

}  // namespace tandem::program
