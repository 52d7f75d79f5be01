#include "experiments/tandem/training/resume.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "exec/checkpoint/resumable.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/json.hpp"
#include "models/base/text.hpp"
#include "models/graph/decay_end.hpp"

namespace tandem::program {
namespace {

constexpr double kHeldOut = 0.1;  // fraction of the text, if it is evaluated on
constexpr std::int64_t kMostSteps = 1'000'000'000;

/// A count in a saved plan; 0 if it is missing.
std::int64_t count_of(const nlohmann::json& training, const char* key) {
  const auto found = training.find(key);
  return found == training.end() || !found->is_number_unsigned() ? 0 : found->get<std::int64_t>();
}

/// The plan with the saved run's batch and length of sequences.
Plan with_saved_batch(const Plan& plan, const nlohmann::json& training) {
  Plan saved = plan;
  TrainingSpec& t = saved.training;
  t.global_batch_size = count_of(training, "global_batch_size");
  t.seq_length = count_of(training, "seq_length");
  const nlohmann::json ramp = training.value("batch_rampup", nlohmann::json::object());
  t.batch_rampup = {count_of(ramp, "start"), count_of(ramp, "increment"), count_of(ramp, "samples")};
  if (t.batch_rampup.increment == 0) t.batch_rampup = {};
  return saved;
}

/// What the checkpoint's run has behind it.
Consumed consumed(const exec::Checkpoint& checkpoint) {
  const exec::StateFacts facts = checkpoint.state->facts();
  return {facts.steps, facts.samples, facts.tokens};
}

/// The end of the saved run's learning rate decay; 0 if it had none, or in another unit.
std::int64_t saved_end(const Plan& plan, const exec::Checkpoint& checkpoint, const std::string& path) {
  const nlohmann::json saved = parse_json(checkpoint.run.plan_json, path).at("training");  // require_resumable has checked it
  if (saved.value("learning_rate_decay", nlohmann::json()) == "constant") return 0;
  if (saved.value("learning_rate_unit", nlohmann::json()) != plan.training.optimizer.learning_rate.unit) return 0;
  const std::int64_t said = count_of(saved, "decay_over"), steps = count_of(saved, "steps");
  if (said > 0 || steps <= 0 || steps > kMostSteps) return said;
  return decay_end(with_saved_batch(plan, saved), steps, consumed(checkpoint));
}

/// Sets the end of the plan's decay. Describes differences from the saved run in `changes`.
void settle_end(Plan& plan, const ResumeOptions& options, const exec::Checkpoint& checkpoint, std::vector<std::string>& changes) {
  LearningRate& rate = plan.training.optimizer.learning_rate;
  const std::int64_t saved = saved_end(plan, checkpoint, options.resume);
  if (saved == 0 || rate.decay == DecayShape::constant) return;
  const std::int64_t own = decay_end(plan, consumed(checkpoint));
  if (std::max(own, rate.warmup) == std::max(saved, rate.warmup)) return;
  if (rate.decay_over > 0)
    return changes.push_back("training.decay_over from " + std::to_string(saved) + " to " + std::to_string(own));
  rate.decay_over = std::max(saved, rate.warmup);
  char minimum[32];
  std::snprintf(minimum, sizeof minimum, "%g", rate.minimum);
  log(options.resume + ": the learning rate decays over " + std::to_string(saved) + " " + rate.unit + ", as in the run that was saved, and is " + minimum +
      " from there on; --schedule-steps sets another length");
}

/// Says that --schedule-steps has no decay to end.
void tell_no_decay(std::int64_t steps, std::int64_t end, const LearningRate& rate) {
  const std::string option = "--schedule-steps " + std::to_string(steps);
  if (rate.decay == DecayShape::constant) return log(option + " changes nothing: training.learning_rate_decay is constant");
  const std::int64_t begin = std::max(rate.warmup, rate.decay_start);
  if (end <= begin)
    log(option + ": the decay would begin behind its end, after " + std::to_string(begin) + " " + rate.unit + (rate.decay_start > rate.warmup ? " (training.decay_start)" : " (training.warmup)") +
        ": the rate falls to its minimum there at once");
}

}  // namespace

std::optional<exec::Checkpoint> open_checkpoint(const std::string& path, const Plan& plan, const EvaluationRhythm& evaluation) {
  if (path.empty()) return std::nullopt;
  exec::Checkpoint checkpoint = exec::load_checkpoint(path);
  if (!checkpoint.note.empty()) log(path + ": " + checkpoint.note);
  exec::require_resumable(checkpoint, plan);
  const std::int64_t steps = plan.training.steps;
  const std::int64_t done = checkpoint.state->facts().steps;
  if (goes_on(done, steps, evaluation)) return checkpoint;
  throw ConfigError(Problem{path, "steps", std::to_string(done), "the saved run has done them, and --steps or the plan asks for " + std::to_string(steps) + " in all",
                            "give more --steps: they count from the first one of the run; `tandem evaluate` evaluates the checkpoint"});
}

void settle_schedule(Plan& plan, const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed) {
  LearningRate& rate = plan.training.optimizer.learning_rate;
  const Consumed behind = resumed ? consumed(*resumed) : Consumed{};
  const std::int64_t said = std::exchange(rate.decay_over, 0), run = decay_end(plan, behind);
  rate.decay_over = said;
  if (rate.warmup > run)
    log("the learning rate does not reach its peak: training.warmup is " + std::to_string(rate.warmup) + " " + rate.unit + ", the whole run " + std::to_string(run));
  if (options.schedule_steps > 0) {
    const std::int64_t end = decay_end(plan, options.schedule_steps, behind);
    tell_no_decay(options.schedule_steps, end, rate);
    rate.decay_over = std::max(end, rate.warmup);
  }
  if (!resumed) return;
  std::vector<std::string> changes = exec::changed_hyper_parameters(*resumed, plan);
  settle_end(plan, options, *resumed, changes);
  if (!changes.empty()) log(options.resume + ": goes on with other hyper-parameters: " + list_text(changes));
}

double held_out(const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed) {
  if (options.evaluates) return options.other_eval_data ? 0 : kHeldOut;
  if (!resumed) return 0;
  if (!resumed->run.held_out)
    log(options.resume + ": does not say whether a part of its text was held out, as an older version wrote it: all of " + options.data +
        " is trained on; --eval-every holds the last tenth out");
  const double share = resumed->run.held_out.value_or(0);
  if (share > 0) log(options.data + ": its last tenth stays held out, as in the run that was saved; --eval-every evaluates on it");
  return share;
}

}  // namespace tandem::program
