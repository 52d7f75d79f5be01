#include "experiments/tandem/training/train_inputs.hpp"

#include <algorithm>

#include "exec/data/started_at.hpp"
#include "exec/run/requirements.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/training/new_length.hpp"
#include "experiments/tandem/training/resume.hpp"
#include "experiments/tandem/training/weights.hpp"
#include "models/base/error.hpp"
#include "models/plan/data_shape.hpp"
#include "models/plan/step_work.hpp"
#include "models/planfile/plan_trained.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

/// The plan to train. Optimizers that validate after the update would roll back, which the runtime cannot do.
Plan trained_plan(const TrainOptions& o) {
  require_plan_file(o.plan);
  Plan plan = load_plan(o.plan, StackChoice{std::string(kOwnStack), std::nullopt});
  if (o.steps > 0) plan.training.steps = o.steps;
  for (const std::string& idle : plan.ineffective) log(o.plan + ": " + idle);
  for (const std::string& without : settle_for_training(plan, o.device.backend == "cuda")) log(o.plan + ": " + without);
  return plan;
}

/// Warns if the resumed run was trained on other tokens, or may have been trained on what is evaluated. Returns whether they are
/// others.
bool tell_other_text(const TrainOptions& o, const TrainInputs& in) {
  if (!in.resumed) return false;
  const exec::SavedRun& run = in.resumed->run;
  const double before = run.held_out.value_or(0);
  const auto was_read = [&](double held_out) {
    const auto part = cut_as_saved(in.data.texts, *in.resumed, held_out);
    return part && run.data == part->fingerprint();
  };
  const bool other = !was_read(in.held_out) && (before >= in.held_out || !was_read(before));
  if (other)
    log(o.resume + ": was trained on other tokens than those of " + data_name(o.text) +
        ": on another text, another part of it, or with another --tokenizer");
  if (o.eval_every > 0 && before < in.held_out)
    log(o.resume + (run.held_out ? ": held no text out" : ": does not say whether it held text out") + ": the evaluated part of " + data_name(o.text) +
        " may have been trained on; give --eval-data");
  return other;
}

/// Says that a run evaluates nothing although a part of the text is held out for it.
void tell_no_evaluation(const TrainOptions& o, std::int64_t steps, std::int64_t done) {
  const bool begins = done > 0 && due_after(done, {o.eval_every, 1});
  if (o.eval_every > 0 && !begins && done / o.eval_every == steps / o.eval_every)
    log("--eval-every " + std::to_string(o.eval_every) + ": no evaluation falls into steps " + std::to_string(done) + " to " +
        std::to_string(steps - 1));
}

/// Says that --save-every adds no checkpoint to the last one.
void tell_no_save(const TrainOptions& o, std::int64_t steps, std::int64_t done) {
  if (o.save_every > 0 && done / o.save_every == (steps - 1) / o.save_every)
    log("--save-every " + std::to_string(o.save_every) + ": only the last step is saved");
}

std::string times_text(double epochs) { return number_text(epochs, epochs < 10 ? 2 : epochs < 100 ? 1 : 0) + " times"; }

/// Says that a run of so many steps reads its data several times, which a small text does not show. `other_text`: the steps that
/// a resumed run has behind it read another one.
void tell_repetition(const TrainOptions& o, const TrainInputs& in, std::int64_t steps, const Begun& begun, bool other_text) {
  const Plan& plan = in.graphs->plan();
  const Segment last = segments(plan, steps, begun).back();
  const auto read_after = [&](std::int64_t samples) { return in.data.training->epochs(static_cast<double>(samples)); };
  const std::int64_t end = last.first_sample + last.steps * last.global_batch_size;
  const double epochs = read_after(end) - (other_text ? read_after(begun.samples) : 0);
  if (epochs <= 1) return;
  const std::string size = sequences_text(*in.data.training, plan.sequence_tokens());
  const std::string what = in.data.texts.all().size() == 1 ? "has " + size + ": the run reads it " : "the run reads one of these texts ";
  log(data_name(o.text) + ": " + what + times_text(epochs));
}

/// Says that an evaluation reads its data several times, which measures nothing more.
void tell_repeated_evaluation(const TrainOptions& o, const TrainInputs& in) {
  if (in.data.evaluation == nullptr) return;
  const Plan& plan = in.graphs->plan();
  const double epochs = in.data.evaluation->epochs(static_cast<double>(o.eval_steps * plan.training.global_batch_size));
  if (epochs <= 1) return;
  const std::string text = o.text.evaluation.empty() ? data_name(o.text) + ": what is held out" : o.text.evaluation + ":";
  log(text + " has " + sequences_text(*in.data.evaluation, plan.sequence_tokens()) + ": an evaluation of --eval-steps " + std::to_string(o.eval_steps) + " reads it " +
      times_text(epochs));
}

void require_step_exists(const TrainOptions& o, std::int64_t steps, std::int64_t done) {
  if (o.timeline_step >= 0 && o.trace.empty() && o.timeline.empty())
    throw ConfigError(Problem{"", "--timeline-step", std::to_string(o.timeline_step), "no file for the step's times was given",
                              "give --timeline or --trace"});
  if (o.timeline_step < 0 || (done <= o.timeline_step && o.timeline_step < steps)) return;
  throw ConfigError(Problem{"", "--timeline-step", std::to_string(o.timeline_step),
                            "the run has steps " + std::to_string(done) + " to " + std::to_string(steps - 1), ""});
}

SequenceOptions sequences_of(const Plan& plan) {
  const DataShape shape = data_shape(plan);
  return {plan.sequence_tokens(), shape.seed, shape.separate, shape.kind == ExampleKind::next_token, shape.mtp > 0};
}

std::string digest(const std::optional<exec::Checkpoint>& resumed) {
  if (!resumed) return "none";
  return std::to_string(resumed->state->facts().steps) + " steps, digest " + std::to_string(resumed->digest);
}

/// Sizes and types of pretrained weights, which are equal in every process.
std::string weights_text(const exec::SavedState* weights) {
  std::string text = weights == nullptr ? "none" : "tensors";
  if (weights != nullptr)
    for (const exec::SavedTensor& t : weights->tensors()) text += " " + t.name + " " + std::string(name(t.type));
  return text;
}

}  // namespace

void require_available(const TrainOptions& o, exec::World& world) {
  require_consistent(o.device, world);
  choose_device(o.device, world);
  require_device(o.device, world);
}

void open_inputs(const TrainOptions& o, exec::World& world, TrainInputs& out) {
  Plan settled = trained_plan(o);
  naming(o.plan, [&] { return require_trainable(settled), require_lowerable(settled), true; });
  out.resumed = open_checkpoint(o.resume, settled, {o.eval_every, o.eval_steps});
  const ResumeOptions options{o.resume, data_name(o.text), o.schedule_steps, o.eval_every > 0, !o.text.evaluation.empty()};
  settle_schedule(settled, options, out.resumed);
  out.held_out = held_out(options, out.resumed);
  out.graphs = std::make_unique<GraphCache>(settled);
  const Plan& plan = out.graphs->plan();
  const auto topology = topology_of(plan, "");  // also refuses clusters that simulate refuses
  out.device = o.device;
  settle_device(out.device, plan, o.algorithms, topology->device());
  if (!o.weights.empty()) out.weights = open_weights({o.weights, o.adapter}, plan, out.graphs->whole().graph);
  out.peak_flops_per_s = peak_flops(out.device, world, topology->device(), step_work(plan).compute);
  out.data = open_data(o.text, sequences_of(plan), out.held_out);
  name_mask(o.text.mask_token, plan, out.data);
  require_vocabulary(plan, out.data.training->vocab_size());
  tell_unused_tokens(out.data.texts, o.text.tokenizer, data_shape(plan).vocab_size());
  const bool other_text = tell_other_text(o, out);
  if (out.resumed)
    tell_new_length(plan, *out.resumed, {data_name(o.text), out.data.texts});
  out.data_since = data_since(plan, out.resumed);
  out.data.training = exec::started_at(std::move(out.data.training), out.data_since);
  const exec::StateFacts behind = out.resumed ? out.resumed->state->facts() : exec::StateFacts{};
  const std::int64_t done = behind.steps, steps = plan.training.steps;
  tell_repetition(o, out, steps, {done, behind.samples}, other_text);
  tell_repeated_evaluation(o, out);
  require_step_exists(o, steps, done);
  tell_no_evaluation(o, steps, done);
  tell_no_save(o, steps, done);
}

void require_same(const TrainOptions& o, const TrainInputs& in, exec::World& world) {
  if (!world.several()) return;
  const auto print = [](const exec::TokenSource* data) { return "fingerprint " + std::to_string(data ? data->fingerprint() : 0); };
  const auto wanted = [](const std::string& path) { return std::string(path.empty() ? "" : " wanted"); };
  const std::string options = "--backend " + o.device.backend + " --comm " + o.device.comm + " --eval-every " +
                              std::to_string(o.eval_every) + " --eval-steps " + std::to_string(o.eval_steps) + " --save" +
                              wanted(o.save) + " --save-every " + std::to_string(o.save_every) + " --keep " + std::to_string(o.keep) +
                              " --timeline" + wanted(o.timeline) + wanted(o.trace) + " --timeline-step " +
                              std::to_string(o.timeline_step);
  program::require_same(world, {{o.plan, to_json(in.graphs->plan(), -1)}, {data_name(o.text), print(in.data.training.get())},
                       {"--eval-data", print(in.data.evaluation.get())}, {"--resume", digest(in.resumed)},
                       {"--weights", weights_text(in.weights.get())}, {"options", options}});
}

}  // namespace tandem::program
