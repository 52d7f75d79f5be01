#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>

#include "exec/checkpoint/resumable.hpp"
#include "exec/checkpoint/saved_weights.hpp"
#include "exec/run/run.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/launch_arguments.hpp"
#include "experiments/tandem/training/devices.hpp"
#include "experiments/tandem/training/evaluated_data.hpp"
#include "experiments/tandem/training/host_memory.hpp"
#include "experiments/tandem/training/processes.hpp"
#include "experiments/tandem/training/weights.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "models/plan/data_shape.hpp"
#include "models/plan/kept_type.hpp"
#include "models/plan/mesh.hpp"
#include "models/planfile/plan_trained.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {
namespace {

struct Options {
  std::string plan, weights, adapter, checkpoint;
  DataOptions text;
  EvaluationCut cut;
  DeviceOptions device;
  LaunchOptions launch;
  bool json = false;
};

/// The inputs of an evaluation; equal in every process.
struct Prepared {
  std::unique_ptr<GraphCache> graphs;
  std::unique_ptr<exec::SavedState> weights;
  std::string weights_text;  ///< for comparison between processes
  EvaluatedData data;
  DeviceOptions device;
};

/// The plan, with a loss that keeps the sums of its rows.
Plan evaluated_plan(const Options& o) {
  require_plan_file(o.plan);
  Plan plan = load_plan(o.plan, StackChoice{std::string(kOwnStack), std::nullopt});
  for (const std::string& idle : plan.ineffective) log(o.plan + ": " + idle);
  for (const std::string& without : settle_for_training(plan, o.device.backend == "cuda")) log(o.plan + ": " + without);
  settle_for_evaluation(plan);
  naming(o.plan, [&] { return require_trainable(plan), require_lowerable(plan), true; });
  return plan;
}

const TaskGraph& graph_of(GraphCache& graphs) {
  return graphs.of(Segment::Kind::evaluate, data_shape(graphs.plan()).global_batch_size).graph;
}

std::unique_ptr<exec::SavedState> checkpoint_weights(const Options& o, const Plan& plan, std::string& text) {
  exec::Checkpoint checkpoint = exec::load_checkpoint(o.checkpoint);
  if (!checkpoint.note.empty()) log(o.checkpoint + ": " + checkpoint.note);
  exec::require_same_model(checkpoint, plan);
  const std::vector<std::string> rotations = exec::changed_rotations(checkpoint, plan);
  if (!rotations.empty()) log(o.checkpoint + ": is evaluated with " + list_text(rotations));
  const std::int64_t steps = checkpoint.state->facts().steps;
  log(o.checkpoint + ": evaluates the weights after " + count_text(steps) + (steps == 1 ? " step" : " steps"));
  text = std::to_string(steps) + " steps, digest " + std::to_string(checkpoint.digest);
  return exec::weights_of(std::move(checkpoint.state), kept_type(plan, "weights"));
}

void open_all(const Options& o, Prepared& out) {
  const Plan& plan = out.graphs->plan();
  if (!o.checkpoint.empty()) {
    out.weights = checkpoint_weights(o, plan, out.weights_text);
    return;
  }
  out.weights = open_weights({o.weights, o.adapter, "evaluates"}, plan, graph_of(*out.graphs));
  for (const exec::SavedTensor& t : out.weights->tensors()) out.weights_text += t.name + " " + std::string(name(t.type)) + " ";
}

void prepare(const Options& o, exec::World& world, Prepared& out) {
  require_consistent(o.device, world);
  choose_device(o.device, world);
  require_device(o.device, world);
  out.graphs = std::make_unique<GraphCache>(evaluated_plan(o), StatesKept::weights);
  const Plan& plan = out.graphs->plan();
  const auto topology = topology_of(plan, "");  // also refuses clusters that simulate refuses
  out.device = o.device;
  settle_device(out.device, plan, "", topology->device());
  open_all(o, out);
  out.data = open_evaluated(o.text, plan, o.cut);
  require_vocabulary(plan, out.data.source->vocab_size());
}

void require_same(const Options& o, const Prepared& in, exec::World& world) {
  if (!world.several()) return;
  const std::string options = "--backend " + o.device.backend + " --comm " + o.device.comm;
  const std::string text = "fingerprint " + std::to_string(in.data.source->fingerprint());
  program::require_same(world, {{o.plan, to_json(in.graphs->plan(), -1)}, {data_name(o.text), text},
                                {"weights", in.weights_text}, {"options", options}});
}

/// Says how far a long evaluation is, where no terminal shows a progress bar.
class Announcer {
 public:
  explicit Announcer(std::int64_t batches) : batches_(batches) {}
  void tell(const EvaluationSum& sum) {
    constexpr std::chrono::seconds kRhythm{10};
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < kRhythm || sum.batches() == batches_ || sum.targets() == 0) return;
    told_ = now;
    const double left = sum.batch_time_s().value_or(0) * static_cast<double>(batches_ - sum.batches());
    log("evaluated " + count_text(sum.batches()) + " of " + count_text(batches_) + " batches, loss so far " +
        number_text(sum.loss(), 4) + (left > 0 ? ", " + time_text(left) + " left" : ""));
  }

 private:
  std::int64_t batches_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

EvaluationReport evaluate_batches(const Prepared& in, exec::World& world) {
  EvaluationReport report;
  report.text = in.data.text;
  exec::RunOptions options;
  use_devices(in.device, in.graphs->plan(), options);
  options.steps = 0;
  options.weights = in.weights.get();
  options.only_evaluate = in.data.text.batches;
  options.evaluation_data = in.data.source.get();
  Progress progress(in.data.text.batches);
  Announcer announcer(in.data.text.batches);
  options.on_scores = [&](const std::vector<exec::SequenceScore>& scores) {
    report.sum.add(scores);
    announcer.tell(report.sum);
    progress.done(report.sum.batches());
  };
  const exec::RunResult result =
      naming(in.graphs->plan().file, [&] { return exec::run(*in.graphs, *in.data.source, options, world); });
  for (const exec::RankBooks& r : result.ranks) report.peak_memory_bytes = std::max(report.peak_memory_bytes, r.backend.peak_bytes);
  return report;
}

ExitCode evaluate(const Options& o, exec::World& world) {
  std::set_new_handler(nullptr);  // the runtime handles it, or reports the rank
  Prepared in;
  prepare_together(world, [&] { prepare(o, world, in); });
  require_same(o, in, world);
  prepare_together(world, [&] {
    place_ranks(world, make_mesh(in.graphs->plan()).world_size(), o.plan);
    require_launch_order(in.device, world, graph_of(*in.graphs));
  });
  if (in.device.backend != "cuda") require_host_memory(in.graphs->plan(), graph_of(*in.graphs), world);
  const EvaluationReport report = evaluate_batches(in, world);
  if (!world.control().first()) return ExitCode::ok;
  if (report.sum.targets() == 0)
    throw ConfigError(Problem{report.text.name, "--data", "", "has no token to predict: each document has one token", "set training.documents to joined"});
  o.json ? print_json(to_json(report)) : print(to_text(report));
  if (!std::isfinite(report.sum.loss())) throw DeviceError(o.plan + ": the loss is not finite: the weights, or the plan's precision, cannot compute this text");
  return ExitCode::ok;
}

void require_start(const Options& o) {
  if (o.weights.empty() && o.checkpoint.empty())
    throw CLI::ValidationError("--weights", "is needed, or --checkpoint: what to evaluate");
}

void add_text_options(CLI::App& command, Options& o) {
  command.add_option("--data", o.text.data, "text to evaluate on, once: a text file, a .jsonl file with --tokenizer, or token ids as train --data takes them")
      ->type_name("FILE")->required()->expected(1);
  CLI::Option* tokenizer = command.add_option("--tokenizer", o.text.tokenizer, "a tokenizer's file, or the folder of one (see tokenize --help) [the text is read as bytes]")->type_name("FILE|DIR");
  command.add_option("--stride", o.cut.stride, "tokens from one window to the next: each window but the first predicts only its last N, and so sees more before them [training.seq_length: windows do not overlap]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command.add_option("--words", o.cut.words, "words of the original text, for the adjusted perplexity [counted in the text: parts between spaces]")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000'000'000}));
  CLI::Option* last_word = command.add_flag("--last-word", o.text.last_word, "predict only the last word of the text in each line of a .jsonl file, as LAMBADA does")->needs(tokenizer);
  command.add_option("--loss-on", o.text.loss_on, "tokens that are predicted: all, or completion, as train --loss-on [completion, where lines have one]")
      ->check(CLI::IsMember({"all", "completion"}))->needs(tokenizer)->excludes(last_word);
  command.add_option("--chat-template", o.text.chat_template, "how messages become tokens: chatml, llama3 or gemma")->type_name("NAME")->needs(tokenizer)->excludes(last_word);
  command.add_option("--mask-token", o.text.mask_token, "bert: id of the token that hides others [the tokenizer's [MASK]; without one the vocabulary's last, which no text may have]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{2'147'483'647}));
}

}  // namespace

void add_evaluate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("evaluate", "Evaluate weights on a text: loss, perplexity, accuracy");
  command->add_option("PLAN", o->plan, "plan file (JSON); its layout, precision and batch change the speed, not what is counted")->required();
  CLI::Option* weights = command->add_option("--weights", o->weights, "weights in Hugging Face's format, as train --weights takes them")->type_name("DIR|FILE");
  command->add_option("--adapter", o->adapter, "adapters in PEFT's format, as train --adapter takes them")->type_name("DIR")->needs(weights);
  command->add_option("--checkpoint", o->checkpoint, "checkpoint of train --save: a file, a folder (its latest checkpoint), or one checkpoint in a folder; of the plan's model, under any layout")
      ->type_name("DIR|FILE")->excludes(weights);
  add_text_options(*command, *o);
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--backend", o->device.backend, "what computes [cpu]; see train --help")->check(CLI::IsMember({"cpu", "cpu-async", "cuda"}));
  command->add_option("--comm", o->device.comm, "what moves bytes between ranks [auto]; see train --help")->check(CLI::IsMember({"auto", "threads", "nccl", "staged"}));
  command->add_option("--launch", o->launch.launch, "where ranks run [threads: all in this process]; see train --help")->check(CLI::IsMember({"threads", "mpi", "env"}));
  CLI::Option* timeout = command->add_option("--timeout", o->launch.timeout_s, "seconds that ranks of several processes wait for each other before the run ends [600]")->type_name("SECONDS")->check(CLI::Range(0.1, 1e6));
  CLI::Option* port = command->add_option("--port", o->launch.port, "with --launch env: where process 0 waits for the others [MASTER_PORT]")->check(CLI::Range(1, 65'535));
  command->footer("Every token is predicted once, the last window and batch filled up without counting: the figures depend neither on the batch "
                  "nor, up to rounding, on the layout, except where experts have a capacity.");
  command->callback([o, timeout, port, &exit] {
    require_start(*o);
    require_processes(o->launch, *timeout, *port);
    exit = in_processes(o->launch, [&](exec::World& world) { return evaluate(*o, world); });
  });
}

}  // namespace tandem::program
