#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <optional>

#include "exec/checkpoint/file_keeper.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/launch_arguments.hpp"
#include "experiments/tandem/training/host_memory.hpp"
#include "experiments/tandem/training/report.hpp"
#include "experiments/tandem/training/run_to_end.hpp"
#include "experiments/tandem/training/saves.hpp"
#include "experiments/tandem/training/train_inputs.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/threads.hpp"
#include "models/graph/stage_flops.hpp"
#include "models/plan/mesh.hpp"
#include "models/planfile/plan_trained.hpp"
#include "reports/prediction/text.hpp"
#include "reports/timeline/chrome_trace.hpp"
#include "reports/timeline/run_routing.hpp"

namespace tandem::program {

namespace {

/// Warns if a launcher started several processes, since each would train the whole plan.
void tell_launcher() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})
    if (const char* value = std::getenv(name); value != nullptr && std::atoll(value) > 1)
      return log(std::string(name) + "=" + value + " is not used: all ranks are threads of this one process; --launch mpi or env spreads them");
}

/// Warns if a plan has more ranks than there are cores: it is trained, but predictions will not match.
void tell_crowding(const Plan& plan) {
  if (const auto told = crowding(plan, all_cores())) log(plan.file + ": " + *told);
}

/// Options of the run, equal in every process. Only process 0 calls callbacks that print or write.
exec::RunOptions run_options(const TrainOptions& o, const TrainInputs& in) {
  const Plan& plan = in.graphs->plan();
  const Data& data = in.data;
  exec::RunOptions options;
  use_devices(in.device, plan, options);
  options.state_every = o.save_every;
  options.steps = plan.training.steps;
  options.evaluation = {o.eval_every, o.eval_steps};
  options.evaluation_data = data.evaluation.get();
  const bool kept = !o.trace.empty() || !o.timeline.empty();
  options.timeline_step = !kept ? -1 : o.timeline_step >= 0 ? o.timeline_step : options.steps - 1;
  return options;
}

RunHistory history_of(const exec::RunResult& result, std::int64_t kept_step) {
  RunHistory out;
  for (const exec::StepResult& s : result.steps)
    out.steps.push_back({s.step, s.loss, s.grad_norm, s.learning_rate, s.step_time_s, s.global_batch_size, s.mtp_loss});
  for (const exec::EvaluationResult& e : result.evaluations) out.evaluations.push_back({e.step, e.loss});
  out.kept_step = kept_step;
  for (const exec::RankBooks& r : result.ranks) out.peak_memory_bytes = std::max(out.peak_memory_bytes, r.backend.peak_bytes);
  return out;
}

void write_files(const TrainOptions& o, GraphCache& graphs, const exec::RunResult& result) {
  if (o.trace.empty() && o.timeline.empty()) return;
  if (!result.timeline)
    return log(std::string("no timeline is written: ") +
               (o.timeline_step < 0 ? "no step was trained" : "the run ended before step " + std::to_string(o.timeline_step)));
  const std::int64_t step = o.timeline_step >= 0 ? o.timeline_step : result.steps.back().step;
  const auto& kept = result.steps.at(static_cast<std::size_t>(step - result.steps.front().step));
  const auto& [plan, graph] = graphs.of(Segment::Kind::train, kept.global_batch_size);
  const Timeline timeline = timeline_of(result);
  if (!o.timeline.empty()) {  // first, as nothing else keeps what was measured
    const bool unequal = depends_on_routing(plan);
    const auto routing = unequal ? std::optional(routing_of(timeline, make_mesh(plan))) : std::nullopt;
    const RunHistory history = history_of(result, step);
    save_timeline(timeline, graph, o.timeline, unequal ? &*routing : nullptr, &history);
  }
  if (!o.trace.empty()) save_chrome_trace(timeline, graph, o.trace);
}

std::int64_t samples_of(const std::vector<exec::StepResult>& steps) {
  const auto add = [](std::int64_t sum, const exec::StepResult& s) { return sum + s.global_batch_size; };
  return std::accumulate(steps.begin(), steps.end(), std::int64_t{0}, add);
}

/// The figures for a run's rates, with the batch size of its last steps.
StepScale step_scale(const TrainInputs& in, const exec::RunResult& result) {
  if (result.steps.empty()) return {};
  const auto& [plan, graph] = in.graphs->of(Segment::Kind::train, result.steps.back().global_batch_size);
  return {plan.global_batch_tokens() / result.steps.back().global_batch_size, model_flops_of_step(graph, plan.world_size()),
          in.peak_flops_per_s};
}

/// The figures for the rates of `steps` steps; each batch size of a ramp-up has its own FLOPs.
RateScale rate_scale(const TrainInputs& in, std::int64_t steps) {
  const Plan& plan = in.graphs->plan();
  const auto flops = [graphs = in.graphs.get()](std::int64_t batch) {
    const auto& [of_batch, graph] = graphs->of(Segment::Kind::train, batch);
    return model_flops_of_step(graph, of_batch.world_size());
  };
  const std::int64_t skipped = in.resumed ? in.resumed->state->facts().scale.skipped : 0;
  return {plan.sequence_tokens(), plan.world_size(), steps, skipped, in.peak_flops_per_s, flops};
}

/// Saves timed algorithms. If the default cache cannot be written, only warns, as the next run only loses seconds.
void keep_algorithms(const TrainOptions& o, exec::device::ProductChoices& choices) {
  try {
    choices.save();
  } catch (const ConfigError& e) {
    if (!o.algorithms.empty()) throw;
    log(std::string(e.what()) + "; the next run times products' algorithms again");
  }
}

bool goes_on_in_place(const TrainOptions& o) { return !o.resume.empty() && !o.save.empty() && file_exists(o.save); }

ExitCode train(const TrainOptions& o, exec::World& world) {
  std::set_new_handler(nullptr);  // the runtime handles it, or reports the rank
  TrainInputs in;
  const bool speaks = world.control().first();
  std::unique_ptr<FileLock> lock;
  prepare_together(world, [&] {
    require_available(o, world);
    if (speaks && goes_on_in_place(o)) lock = lock_place(o.save);  // before its checkpoint is opened, which another run may replace
    open_inputs(o, world, in);
  });
  require_same(o, in, world);
  auto& [resumed, weights, graphs, data, share, since, device, peak] = in;
  const Plan& plan = graphs->plan();
  prepare_together(world, [&] {
    place_ranks(world, make_mesh(plan).world_size(), o.plan);
    require_launch_order(device, world, graphs->whole().graph);
  });
  if (device.backend != "cuda") require_host_memory(plan, graphs->whole().graph, world);
  prepare_together(world, [&] {
    if (!speaks) return;
    permit_replacing(o.save, o.resume);  // only a checkpoint may replace an earlier one
    prepare_outputs({o.trace, o.timeline, o.metrics, exec::names_one_file(o.save) ? o.save : "", o.algorithms}, {});
    if (!lock) lock = lock_place(o.save);
    require_own_place(o.save, o.resume);
  });
  if (!o.save.empty()) exec::prepare_folder(o.save, world);
  log("stack " + plan.stack.name + " as of " + text_of(plan.stack.as_of) + ": the runtime performs every plan as its own stack");
  if (!world.several()) tell_crowding(plan), tell_launcher();
  FiniteWatch numbers(plan.training);
  exec::RunOptions options = run_options(o, in);
  const auto goes_on = [&] { return numbers.last() + 1 < options.steps && !InterruptWatch::pressed() && !numbers.hopeless(); };
  SaveLog saves(o.save, plan, numbers, goes_on);
  const auto keeper = make_keeper({o.save, {to_json(plan, -1), data.training->fingerprint(), share, since}, o.keep}, saves, world);
  options.resume = resumed ? resumed->state.get() : nullptr;
  options.weights = weights.get();
  options.keeper = keeper.get();
  const std::int64_t done = resumed ? resumed->state->facts().steps : 0;
  const auto ended_early = [&](const exec::RunResult& r) {
    return done + static_cast<std::int64_t>(r.steps.size()) < options.steps;
  };
  const exec::StateFacts behind = resumed ? resumed->state->facts() : exec::StateFacts{};
  std::optional<MetricsFile> metrics;
  const auto tell = [&](const exec::RunResult& result, const std::optional<exec::RankFailure>& failure) {
    TrainReport report = summarise(step_scale(in, result), result);
    report.interrupted = !failure && ended_early(result);
    report.bigram_entropy_nats = data.bigram_entropy;
    report.epochs = data.training->epochs(static_cast<double>(behind.samples + samples_of(result.steps)));
    report.metrics_lost = metrics ? metrics->lost() : std::nullopt;
    report.failure = failure;
    report.unsaved = saves.unsaved();
    o.json ? print_json(to_json(report)) : print(to_text(report));
  };
  if (speaks)
    options.on_failure = [&](const exec::RankFailure& failure, const exec::RunResult& until_then) { tell(until_then, failure); };
  prepare_together(world, [&] {
    const bool evaluates = done > 0 && due_after(done, options.evaluation);
    metrics.emplace(speaks ? o.metrics : "", MetricsBegin{done, behind.samples, behind.tokens, plan.sequence_tokens(), evaluates});
  });
  RateWatch rates(rate_scale(in, options.steps - done));
  const exec::RunResult result = run_to_end({*graphs, *data.training, world}, options, {numbers, *metrics, rates});
  if (!speaks) return ExitCode::ok;  // process 0 has the result, and all processes use its exit code
  const exec::RankFailure infinite{Rank(), numbers.last(), exec::Activity::training, numbers.text()};
  tell(result, numbers.finite() ? std::nullopt : std::optional(infinite));
  write_files(o, *graphs, result);
  if (device.cuda.choices) keep_algorithms(o, *device.cuda.choices);
  saves.finish();
  if (!numbers.finite()) throw DeviceError(o.plan + ": " + numbers.text() + "; " + remedy(plan, numbers, ""));
  metrics->finish();
  return ended_early(result) ? ExitCode::interrupted : ExitCode::ok;
}

/// Refuses device options without that device.
void require_device(const TrainOptions& o) {
  if (!o.algorithms.empty() && o.device.backend != "cuda") throw CLI::ValidationError("--algorithms", "needs --backend cuda");
}

/// Refuses weights for a run that goes on with its own.
void require_one_start(const TrainOptions& o) {
  if (!o.weights.empty() && !o.resume.empty()) throw CLI::ValidationError("--weights", "is for a new run: the checkpoint of --resume has weights of its own");
}

}  // namespace

void add_train(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a plan, on the CPUs of this machine or on a GPU");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required()->each([command](const std::string& path) {
    if (command->get_help_ptr()->count() == 0) require_plan_file(path);  // before missing options, which would not help
  });
  command->add_option("--data", o->text.data, "text file, read as byte tokens, or token ids: a .bin of Megatron-LM with its .idx, or of llm.c; repeated, with weights as in 0.3:PATH, it blends texts [weights: their lengths]")->type_name("FILE")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->option_defaults()->group("Text");
  CLI::Option* tokenizer = command->add_option("--tokenizer", o->text.tokenizer, "a tokenizer's file, or the folder of one (see tokenize --help): makes token ids of the texts --data and --eval-data, also of a .jsonl file's lines: text, prompt and completion, or messages [texts are read as bytes]")->type_name("FILE|DIR");
  command->add_option("--loss-on", o->text.loss_on, "tokens that are trained on: all, or completion: those of completions and of what the role assistant says [completion, where lines have one]")
      ->check(CLI::IsMember({"all", "completion"}))
      ->needs(tokenizer);
  command->add_option("--chat-template", o->text.chat_template, "how messages become tokens: chatml, llama3 or gemma")->type_name("NAME")->needs(tokenizer);
  command->add_option("--mask-token", o->text.mask_token, "bert: id of the token that hides others, such as 103 of bert-base-uncased [the tokenizer's [MASK]; without one the vocabulary's last, which no text may have]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{2'147'483'647}));
  command->option_defaults()->group("Options");
  command->add_option("--steps", o->steps, "optimizer steps [the plan's training.steps, default 1]")->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--schedule-steps", o->schedule_steps, "steps over which the learning rate decays [with --resume: the saved run's; else the plan's training.decay_over, or --steps]")
       ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->option_defaults()->group("Evaluation");
  CLI::Option* every = command->add_option("--eval-every", o->eval_every, "evaluate after every N-th step [never]; a resumed run keeps its held-out text")
                           ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--eval-steps", o->eval_steps, "global batches of an evaluation [1]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->needs(every);
  command->add_option("--eval-data", o->text.evaluation, "text to evaluate on [the last tenth of --data, which is not trained on]")->type_name("FILE")
      ->needs(every);
  command->option_defaults()->group("Checkpoints and weights");
  CLI::Option* save = command->add_option("--save", o->save, "checkpoint to write after the last step, also when interrupted: a folder of checkpoints, or one file if the name ends in .safetensors or names an existing file")->type_name("DIR|FILE");
  command->add_option("--save-every", o->save_every, "also write a checkpoint after every N-th step [never]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->needs(save);
  CLI::Option* keep = command->add_option("--keep", o->keep, "newest checkpoints to keep in the folder [2]; checkpoints of later steps, of an abandoned branch, are not removed")
                          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
                          ->needs(save);
  command->add_option("--resume", o->resume, "checkpoint to resume: a file, a folder (its latest checkpoint), or one checkpoint in a folder; layout, batch and length of sequences may differ; --steps includes its steps")->type_name("DIR|FILE");
  CLI::Option* weights = command->add_option("--weights", o->weights, "weights to begin with, in Hugging Face's format: a folder with model.safetensors or its index, or a .safetensors file; a config.json beside them must say the plan's model [drawn at random]")->type_name("DIR|FILE");
  command->add_option("--adapter", o->adapter, "adapters to begin with, in PEFT's format: a folder with adapter_config.json and adapter_model.safetensors; training.lora must have their rank, factor and targets [A drawn at random, B 0]")->type_name("DIR")
      ->needs(weights);
  command->option_defaults()->group("Results");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--metrics", o->metrics, "write a JSON line after every step and evaluation: step, loss, perplexity, tokens_per_s, model_flops_per_s_per_device, remaining_s ...; --resume keeps the lines of the steps behind it")->type_name("FILE");
  command->add_option("--trace", o->trace, "write a Chrome trace of one step for Perfetto")->type_name("FILE");
  command->add_option("--timeline", o->timeline, "write every task's times of one step, for compare, report and reports/plot_timeline.py")->type_name("FILE");
  command->add_option("--timeline-step", o->timeline_step, "the step to record, counted from 0 [the last]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}));
  command->option_defaults()->group("Devices and processes");
  command->add_option("--backend", o->device.backend, "what computes [cpu]; cpu-async: the same kernels, each stream on a thread of its own; cuda: one CUDA device per process, shared by its ranks")->check(CLI::IsMember({"cpu", "cpu-async", "cuda"}));
  command->add_option("--comm", o->device.comm, "what moves bytes between ranks [auto: nccl between processes with --backend cuda, else threads]; threads: shared memory within a process, MPI or Gloo (--launch) between processes; nccl: NCCL, one rank per process; staged: copies through host memory")->check(CLI::IsMember({"auto", "threads", "nccl", "staged"}));
  command->add_option("--algorithms", o->algorithms, "with --backend cuda: file of the fastest cuBLASLt algorithms [of the card and library, in ~/.cache/tandem/algorithms]; missing ones are timed before the first step and added at the end; simulate --cost-table reads it; deterministic plans do not use it")->type_name("FILE");
  command->add_option("--launch", o->launch.launch, "where ranks run [threads: all in this process]; mpi: in the processes that mpirun or srun starts, over MPI; env: in those that torchrun or srun starts, over Gloo")->check(CLI::IsMember({"threads", "mpi", "env"}));
  CLI::Option* timeout = command->add_option("--timeout", o->launch.timeout_s, "seconds that ranks of several processes wait for each other before the run ends [600]")->type_name("SECONDS")->check(CLI::Range(0.1, 1e6));
  CLI::Option* port = command->add_option("--port", o->launch.port, "with --launch env: where process 0 waits for the others [MASTER_PORT, and the next one if torchrun uses that]")->check(CLI::Range(1, 65'535));
  command->callback([o, timeout, port, keep, &exit] {
    o->text.evaluates = o->eval_every > 0;
    if (keep->count() > 0 && exec::names_one_file(o->save)) throw CLI::ValidationError("--keep", "needs a folder in --save, which names one file");
    require_processes(o->launch, *timeout, *port);
    require_device(*o);
    require_one_start(*o);
    exit = in_processes(o->launch, [&](exec::World& world) { return train(*o, world); });
  });
}

}  // namespace tandem::program
