#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>

#include "exec/cpu/backend.hpp"
#include "exec/run/run.hpp"
#include "exec/state/checkpoint.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/rehearsal.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/train_report.hpp"
#include "models/base/leftovers.hpp"
#include "models/base/threads.hpp"
#include "reports/prediction/text.hpp"
#include "reports/timeline/chrome_trace.hpp"
#include "reports/timeline/run_routing.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string plan, data, eval_data, trace, timeline, save, resume;
  std::string backend = "cpu", launch = "threads";
  std::int64_t steps = 0;
  std::int64_t eval_every = 0, eval_steps = 1, save_every = 0;
  std::int64_t timeline_step = -1;   ///< -1: the last
  bool json = false;
};

/// What the design foresees and this version has not.
void require_available(const Options& o) {
  std::vector<Problem> problems;
  if (o.backend == "cuda") problems.push_back({"", "--backend", o.backend, "not implemented in this version", "use cpu"});
  if (o.launch != "threads")
    problems.push_back({"", "--launch", o.launch, "not implemented in this version", "use threads"});
  if (!problems.empty()) throw InfeasibleError(problems);
}

/// Started by a launcher, every process would train the whole plan.
void tell_launcher() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})
    if (const char* value = std::getenv(name); value != nullptr && std::atoll(value) > 1)
      return log(std::string(name) + "=" + value + " is not used: all ranks are threads of this one process, which needs no launcher");
}

/// A plan of more cores than there are is trained all the same, but no prediction of it will meet these times.
void tell_crowding(const Plan& plan) {
  const std::int64_t cores = all_cores(), devices = plan.cluster.devices;
  if (plan.cluster.generation != "cpu" || devices <= cores) return;
  std::string advice = "its times are not those of the plan's cluster";
  if (devices % cores == 0)
    advice += "; to compare with a prediction set cluster.devices to " + std::to_string(cores) +
              " and cluster.override.ranks_per_device to " + std::to_string(devices / cores * plan.cluster.ranks_per_device);
  log(plan.file + ": " + std::to_string(devices) + " devices share the " + std::to_string(cores) + " processors of this machine: " + advice);
}

void require_vocabulary(const exec::TokenSource& data, const Plan& plan) {
  if (data.vocab_size() <= plan.model.vocab_size) return;
  throw ConfigError(Problem{plan.file, "model.vocab_size", std::to_string(plan.model.vocab_size),
                            "the data has " + std::to_string(data.vocab_size()) + " different tokens",
                            "use at least " + std::to_string(data.vocab_size())});
}

std::string step_line(const exec::StepResult& s) {
  char text[160];
  std::snprintf(text, sizeof text, "step %5lld  loss %8s  grad norm %9s  lr %.3e  %9.2f ms", static_cast<long long>(s.step),
                loss_text(s.loss, 5).c_str(), loss_text(s.grad_norm, 4).c_str(), s.learning_rate, s.step_time_s * 1e3);
  return text + std::string(s.skipped() ? "  update skipped: its gradients are not finite" : "");
}

/// Told where it has changed; without a loss scale it is 1.
std::string scale_text(double before, double scale) {
  return scale == before ? "" : "  loss scale " + number_text(scale, 0);
}

std::string evaluation_line(const exec::EvaluationResult& e) {
  return "evaluation after step " + std::to_string(e.step) + "  loss " + aligned(loss_text(e.loss, 5), 8);
}

/// What is trained on and what is evaluated on; the latter is the end of the text where no other file is given.
struct Data {
  std::unique_ptr<exec::TokenSource> training, evaluation;
};

Data open_data(const Options& o, const Plan& plan) {
  constexpr double kept_back = 0.1;
  const auto open = [&](const std::string& path, const exec::TextPart& part) {
    return exec::open_byte_text(path, plan.sequence_tokens(), plan.training.seed, part);
  };
  if (o.eval_every == 0) return {open(o.data, {}), nullptr};
  if (!o.eval_data.empty()) return {open(o.data, {}), open(o.eval_data, {})};
  return {open(o.data, {0, 1 - kept_back}), open(o.data, {1 - kept_back, 1})};
}

/// The plan as it is trained. An update that is validated afterwards takes steps back, which the runtime does not.
Plan trained_plan(const Options& o) {
  Plan plan = load_plan(o.plan, StackChoice{std::string(kOwnStack), std::nullopt});
  if (o.steps > 0) plan.training.steps = o.steps;
  for (const std::string& idle : plan.ineffective) log(o.plan + ": " + idle);
  if (plan.parallel.optimizer_sync != OptimizerSync::global) {
    log(o.plan + ": parallel.optimizer_sync post_validated is simulated only; training synchronises globally");
    plan.parallel.optimizer_sync = OptimizerSync::global;
  }
  if (plan.training.cuda_graphs != CudaGraphs::none) {
    log(o.plan + ": training.cuda_graphs is simulated only; this host computes itself and launches nothing that could be captured");
    plan.training.cuda_graphs = CudaGraphs::none;
  }
  return plan;
}

/// What --resume names, checked against the plan; nothing where it names nothing.
std::optional<exec::Checkpoint> open_checkpoint(const Options& o, const Plan& plan, const exec::TokenSource& data) {
  if (o.resume.empty()) return std::nullopt;
  exec::Checkpoint checkpoint = exec::load_checkpoint(o.resume);
  exec::require_resumable(o.resume, checkpoint, plan);
  if (checkpoint.state.steps >= plan.training.steps)
    throw ConfigError(Problem{o.resume, "steps", std::to_string(checkpoint.state.steps),
                              "the run has " + std::to_string(plan.training.steps) + " in all, so none is left",
                              "give more --steps: they count from the first one of the run"});
  if (checkpoint.data != data.fingerprint()) log(o.resume + ": was trained on another text than " + o.data + " (or another part of it)");
  return checkpoint;
}

/// Saves what the run keeps, under its plan and text. A full disk does not end a long training, but its exit code tells.
class Saver {
 public:
  Saver(const Options& o, const Plan& plan, const exec::TokenSource& data)
      : path_(o.save), plan_(to_json(plan, -1)), data_(data.fingerprint()) {}

  void operator()(const exec::TrainingState& state) {
    for (const std::string& left : remove_leftovers(path_)) log("removed " + left + ", which a killed run had begun to write");
    try {
      exec::save_checkpoint(path_, {state, plan_, data_});
      failed_ = nullptr;
    } catch (const ConfigError& e) {
      log(std::string(e.what()) + "; the training goes on without it");
      failed_ = std::current_exception();
    }
  }

  /// Throws where the last checkpoint could not be written.
  void finish() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  std::string path_, plan_;
  std::uint64_t data_;
  std::exception_ptr failed_;
};

exec::RunOptions run_options(const Options& o, const Plan& plan, const Data& data, Saver& saver) {
  exec::RunOptions options;
  if (o.backend == "cpu-async") options.make_backend = [](Rank) { return exec::make_async_cpu_backend(); };
  if (!o.save.empty()) options.on_state = std::ref(saver);
  options.state_every = o.save_every;
  options.steps = plan.training.steps;
  options.evaluation = {o.eval_every, o.eval_steps};
  options.evaluation_data = data.evaluation.get();
  const bool kept = !o.trace.empty() || !o.timeline.empty();
  options.timeline_step = !kept ? -1 : o.timeline_step >= 0 ? o.timeline_step : options.steps - 1;
  return options;
}

void require_step_exists(const Options& o, const Plan& plan, std::int64_t done) {
  if (o.timeline_step >= 0 && o.trace.empty() && o.timeline.empty())
    throw ConfigError(Problem{"", "--timeline-step", std::to_string(o.timeline_step), "no file is asked for that a step is kept in",
                              "give --timeline or --trace"});
  if (o.timeline_step < 0 || (done <= o.timeline_step && o.timeline_step < plan.training.steps)) return;
  throw ConfigError(Problem{"", "--timeline-step", std::to_string(o.timeline_step),
                            "the run has steps " + std::to_string(done) + " to " + std::to_string(plan.training.steps - 1), ""});
}

RunHistory history_of(const exec::RunResult& result, std::int64_t kept_step) {
  RunHistory out;
  for (const exec::StepResult& s : result.steps)
    out.steps.push_back({s.step, s.loss, s.grad_norm, s.learning_rate, s.step_time_s, s.global_batch_size});
  for (const exec::EvaluationResult& e : result.evaluations) out.evaluations.push_back({e.step, e.loss});
  out.kept_step = kept_step;
  for (const exec::RankBooks& r : result.ranks) out.peak_memory_bytes = std::max(out.peak_memory_bytes, r.backend.peak_bytes);
  return out;
}

void write_files(const Options& o, GraphCache& graphs, const exec::RunResult& result) {
  if (o.trace.empty() && o.timeline.empty()) return;
  if (!result.timeline) return log("no timeline is written: the run ended before step " + std::to_string(o.timeline_step));
  const std::int64_t step = o.timeline_step >= 0 ? o.timeline_step : result.steps.back().step;
  const auto& kept = result.steps.at(static_cast<std::size_t>(step - result.steps.front().step));
  const auto& [plan, graph] = graphs.of(Segment::Kind::train, kept.global_batch_size);
  const Timeline timeline = timeline_of(result);
  if (!o.trace.empty()) save_chrome_trace(timeline, graph, o.trace);
  if (o.timeline.empty()) return;
  const bool unequal = depends_on_routing(plan);
  const auto routing = unequal ? std::optional(routing_of(timeline, make_mesh(plan))) : std::nullopt;
  const RunHistory history = history_of(result, step);
  save_timeline(timeline, graph, o.timeline, unequal ? &*routing : nullptr, &history);
}

/// Runs to the end or to Ctrl-C.
exec::RunResult run_to_end(GraphCache& graphs, const exec::TokenSource& data, exec::RunOptions options) {
  const InterruptWatch watch;
  const std::int64_t done = options.resume != nullptr ? options.resume->steps : 0;
  Progress progress(options.steps - done);
  double scale = 1;
  options.on_step = [&](const exec::StepResult& s) {
    log(step_line(s) + scale_text(scale, s.loss_scale));
    scale = s.loss_scale;
    progress.done(s.step + 1 - done);
  };
  options.on_evaluation = [&](const exec::EvaluationResult& e) { log(evaluation_line(e)); };
  options.stop = [] { return InterruptWatch::pressed(); };
  return naming(graphs.plan().file, [&] { return exec::run(graphs, data, options); });
}

ExitCode train(const Options& o) {
  require_available(o);
  std::set_new_handler(nullptr);  // the runtime goes on, or says which rank it was
  GraphCache graphs(trained_plan(o));
  const Plan& plan = graphs.plan();
  naming(o.plan, [&] { return require_lowerable(plan), true; });
  const Data data = open_data(o, plan);
  require_vocabulary(*data.training, plan);
  const std::optional<exec::Checkpoint> resumed = open_checkpoint(o, plan, *data.training);
  require_step_exists(o, plan, resumed ? resumed->state.steps : 0);
  prepare_outputs({o.trace, o.timeline, o.save}, {o.plan, o.data, o.eval_data});
  prepare_outputs({o.trace, o.timeline}, {o.resume});  // a checkpoint alone may take the place of the one before
  const double entropy = exec::bigram_entropy(o.data);  // before the run: afterwards the text may be gone
  log("stack " + plan.stack.name + " as of " + text_of(plan.stack.as_of) + ": the runtime performs every plan as its own stack");
  tell_crowding(plan);
  tell_launcher();
  Saver saver(o, plan, *data.training);
  exec::RunOptions options = run_options(o, plan, data, saver);
  options.resume = resumed ? &resumed->state : nullptr;
  const auto tell = [&](const exec::RunResult& result, const std::optional<exec::RankFailure>& failure) {
    TrainReport report = summarise(plan, result);
    report.bigram_entropy_nats = entropy;
    report.failure = failure;
    print(o.json ? to_json(report) : to_text(report));
  };
  options.on_failure = [&](const exec::RankFailure& failure, const exec::RunResult& until_then) { tell(until_then, failure); };
  const exec::RunResult result = run_to_end(graphs, *data.training, options);
  tell(result, std::nullopt);
  write_files(o, graphs, result);
  saver.finish();
  return result.steps.back().step + 1 < plan.training.steps ? ExitCode::interrupted : ExitCode::ok;
}

}  // namespace

void add_train(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Really train a plan");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required();
  command->add_option("--data", o->data, "text file, read as byte tokens")->required();
  command->add_option("--steps", o->steps, "optimizer steps [the plan's training.steps, which is 1 where it says nothing]")->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  CLI::Option* every = command->add_option("--eval-every", o->eval_every, "evaluate behind every N-th step [never]")
                           ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--eval-steps", o->eval_steps, "global batches of an evaluation [1]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->needs(every);
  command->add_option("--eval-data", o->eval_data, "text to evaluate on [the last tenth of --data, which is not trained on]")
      ->needs(every);
  CLI::Option* save = command->add_option("--save", o->save, "checkpoint to write behind the last step, also when interrupted (safetensors)");
  command->add_option("--save-every", o->save_every, "and behind every N-th step [never]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->needs(save);
  command->add_option("--resume", o->resume, "checkpoint to go on from, under this or another layout; --steps counts its steps too");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--trace", o->trace, "write a Chrome trace of one step for Perfetto");
  command->add_option("--timeline", o->timeline, "write every task's times of one step, for compare and plot_timeline.py");
  command->add_option("--timeline-step", o->timeline_step, "the step that is kept, counted from 0 [the last]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}));
  command->add_option("--backend", o->backend, "what computes [cpu]; cpu-async: the same kernels, each stream on a thread of its own; cuda is not implemented in this version")->check(CLI::IsMember({"cpu", "cpu-async", "cuda"}));
  command->add_option("--launch", o->launch, "what ranks are [threads]; mpi and env are not implemented in this version: no transport between processes or hosts")->check(CLI::IsMember({"threads", "mpi", "env"}));
  command->callback([o, &exit] { exit = train(*o); });
}

}  // namespace tandem::program
