#include "exec/run/run.hpp"

#include <atomic>
#include <cmath>
#include <new>

#include "exec/communicator/rendezvous.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/run/learning_rate.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/run/rank_seat.hpp"
#include "exec/state/gather.hpp"
#include "exec/state/initialise.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/planfile/plan_trained.hpp"

namespace tandem::exec {
namespace {

void require_steps_left(const TrainingState* resume, std::int64_t steps) {
  if (resume == nullptr || resume->steps < steps) return;
  throw ConfigError(Problem{"", "training.steps", std::to_string(steps),
                            "the state to resume has " + std::to_string(resume->steps) + " steps behind it",
                            "give more steps: they count from the beginning of the run"});
}

void require_no_host_copies(const Plan& plan, const TaskGraph& graph) {
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks)
      if (std::holds_alternative<HostCopy>(task.op))
        throw InfeasibleError(Problem{plan.file, "parallel.offload", "", "simulated only: this runtime has no second memory",
                                      "leave parallel.offload out to train"});
}

std::vector<DType> types_of(const std::vector<Operand>& operands) {
  std::vector<DType> types;
  for (const auto& o : operands) types.push_back(o.dtype);
  return types;
}

void require_supported(const Plan& plan, const Task& task, const Backend& backend) {
  if (is_communication(task.op)) return;
  const auto in = types_of(task.inputs), out = types_of(task.outputs);
  const Answer answer = backend.supports(task.op, {task.dtype, in, out});
  if (answer.possible) return;
  throw InfeasibleError(Problem{plan.file, "training.precision", plan.training.precision,
                                "the " + std::string(backend.name()) + " backend cannot do " + answer.reason,
                                "choose another precision or backend"});
}

void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend) {
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) require_supported(plan, task, backend);
}

/// All ranks of one run.
class Run {
 public:
  Run(const Plan& plan, const Script& script, const RunOptions& options)
      : plan_(plan),
        script_(script),
        options_(options),
        gate_(static_cast<std::size_t>(script.mesh().world_size())),
        last_step_(options.steps - 1),
        timeline_step_(options.timeline_step),
        step_(options.resume != nullptr ? options.resume->steps : 0) {}

  RunResult train() {
    if (make_ranks()) {
      const auto first = states(*script_.acts().front().context);
      initialise(first, plan_, options_.initialise);
      if (options_.resume != nullptr) restore_state(first, plan_, *options_.resume);
      for (auto& rank : ranks_) rank->scale() = first_scale();
      run_threads();
    }
    if (failure_.failure() && options_.on_failure) options_.on_failure(*failure_.failure(), take_result());
    failure_.rethrow();
    return take_result();
  }

 private:
  std::unique_ptr<Backend> make_backend(Rank rank) const {
    return options_.make_backend ? options_.make_backend(rank) : make_cpu_backend();
  }

  /// False where the host has no room for a rank, which then has failed.
  bool make_ranks() {
    const auto world = static_cast<int>(script_.mesh().world_size());
    auto comms = options_.make_communicators ? options_.make_communicators(world) : make_thread_communicators(world);
    for (int r = 0; r < world; ++r) try {
        make_rank(Rank(r), std::move(comms[static_cast<std::size_t>(r)]));
      } catch (const DeviceError&) {
        return !failure_.record(Rank(r), step_, evaluating_);
      }
    return true;
  }

  void make_rank(Rank rank, std::unique_ptr<Communicator> comm) {
    RankParts parts{rank, make_backend(rank), std::move(comm), nullptr};
    if (rank == Rank(0))
      for (const auto* c : script_.contexts()) require_supported(c->plan, c->graph, *parts.backend);
    const auto stage = StageId(script_.mesh().coords(rank)[Axis::pp]);
    parts.arena = parts.backend->allocate(static_cast<std::size_t>(script_.arena_bytes(stage).count()));
    // All ones is not a number: what reads a byte that nobody wrote shows it.
    parts.arena->fill(0, parts.arena->size(), std::byte{0xFF});
    comms_.push_back(parts.comm.get());
    ranks_.push_back(std::make_unique<RankSeat>(std::move(parts), [this](Rank failed) { fail(failed); }));
  }

  std::vector<RankState> states(const RunContext& context) const {
    std::vector<RankState> all;
    for (const auto& rank : ranks_) all.push_back(rank->state(context));
    return all;
  }

  /// Returns when all have ended. A thread that cannot be started is a rank that failed.
  void run_threads() {
    ThreadGroup threads;
    for (auto& rank : ranks_) try {
        threads.start([this, &rank] { rank_main(*rank); });
      } catch (...) {
        return fail(rank->rank());
      }
  }

  // Called inside the handler of whatever thread failed. Only the first failure is news; the rest are its consequences.
  void fail(Rank rank) {
    if (failure_.record(rank, step_, evaluating_)) comms_[rank.index()]->abort(failure_.failure()->reason);
    gate_.abort();
    ranks_[rank.index()]->cancel();
  }

  void rank_main(RankSeat& rank) {
    try {
      for (const Act& act : script_.acts()) {
        rank.enter(act);
        act.segment.kind == Segment::Kind::train ? train(rank, act) : evaluate(rank, act);
      }
    } catch (...) {
      fail(rank.rank());
    }
  }

  /// Said by every rank once all have met, so that a failure knows when it was.
  void doing(std::int64_t step, bool evaluation) { step_ = step, evaluating_ = evaluation; }

  TimePoint meet() {
    const auto full = gate_.arrive();
    if (!full) throw Cancelled{};
    return *full;
  }

  static StepTable step_table(const Act& act, std::int64_t index) {
    const Segment& s = act.segment;
    StepTable table;
    table.step = static_cast<std::uint64_t>(s.first_step + index);
    table.first_sample = s.first_sample + index * s.global_batch_size;
    return table;
  }

  void train(RankSeat& rank, const Act& act) {
    for (std::int64_t i = 0; i < act.segment.steps; ++i) {
      const std::int64_t step = act.segment.first_step + i;
      const StepTable table = with_update(step_table(act, i), act, i, rank.scale());
      const auto begin = meet();
      if (step > last_step_) return;
      doing(step, false);
      const bool recorded = step == timeline_step_;
      rank.enter(act).run_step(table, recorded ? std::optional(begin) : std::nullopt);
      rank.scale() = behind(rank.enter(act).table(), rank.scale());
      const auto end = meet();
      if (recorded) rank.keep_lane();
      if (rank.rank() == Rank(0)) finish_step(act, step, std::chrono::duration<double>(end - begin).count());
    }
  }

  void evaluate(RankSeat& rank, const Act& act) {
    double sum = 0;
    for (std::int64_t i = 0; i < act.segment.steps; ++i) {
      meet();
      if (act.segment.first_step > last_step_ + 1) return;
      doing(act.segment.first_step - 1, true);
      rank.enter(act).run_step(step_table(act, i), std::nullopt);
      meet();
      if (rank.rank() == Rank(0)) sum += loss(*act.context);
    }
    if (rank.rank() == Rank(0)) finish_evaluation({act.segment.first_step - 1, sum / static_cast<double>(act.segment.steps)});
  }

  StepTable with_update(StepTable s, const Act& act, std::int64_t index, const ScaleState& scale) const {
    const auto& optimizer = plan_.training.optimizer;
    const RunProgress progress = script_.progress(act.segment, index);
    const auto t = static_cast<double>(progress.step + 1 - scale.skipped);
    s.loss_scale = scale.loss_scale;
    s.inverse_scale = 1 / scale.loss_scale;
    s.good_steps = scale.good_steps;
    s.bad_steps = scale.bad_steps;
    s.learning_rate = learning_rate(optimizer.learning_rate, progress);
    s.bias_correction1 = 1 - std::pow(optimizer.beta1, t);
    s.bias_correction2 = 1 - std::pow(optimizer.beta2, t);
    return s;
  }

  /// The table as the step has left it: every rank has found the same, for all have seen the same norm.
  static ScaleState behind(const StepTable& s, const ScaleState& before) {
    return {s.loss_scale, s.good_steps, s.bad_steps, before.skipped + (s.found_nonfinite ? 1 : 0)};
  }

  /// Where the run begins.
  ScaleState first_scale() const {
    if (options_.resume != nullptr) return options_.resume->scale;
    ScaleState scale;
    if (plan_.training.scales_loss()) scale.loss_scale = plan_.training.loss_scale.initial;
    return scale;
  }

  /// As reduced, without the loss scale.
  std::vector<GatheredTensor> gradients(const RunContext& context, double inverse_scale) const {
    std::vector<GatheredTensor> all = gather(states(context), "gradients", plan_.training.dtypes.gradients);
    for (GatheredTensor& t : all)
      for (double& v : t.values) v *= inverse_scale;
    return all;
  }

  /// The last virtual stage has it; after the step it is a sum over the data group.
  double loss(const RunContext& context) const {
    for (const auto& rank : ranks_) {
      const RankState state = rank->state(context);
      if (const auto offset = state_offset(*state.program, "loss"); offset >= 0)
        return read_value<double>(*state.arena, static_cast<std::size_t>(offset));
    }
    return std::nan("");
  }

  // On rank 0's thread while the others wait for it to begin the next step.
  void finish_step(const Act& act, std::int64_t step, double seconds) {
    const StepTable s = ranks_[0]->enter(act).table();
    const StepResult done{step,    loss(*act.context), s.grad_norm, s.learning_rate,
                          seconds, act.segment.global_batch_size, 1 / s.inverse_scale};
    result_.steps.push_back(done);
    if (options_.gather_gradients) result_.gradients.push_back(gradients(*act.context, s.inverse_scale));
    if (step == timeline_step_) begin_timeline(act, seconds);
    if (options_.on_step) options_.on_step(done);
    if (step < last_step_ && options_.stop && options_.stop()) stop_behind(step);
    if (options_.on_state && (step == last_step_ || (options_.state_every > 0 && (step + 1) % options_.state_every == 0)))
      keep_state(act, step + 1);
  }

  /// The others read these once they have met rank 0 for the next step.
  void stop_behind(std::int64_t step) {
    const bool wanted = timeline_step_ == options_.steps - 1;
    last_step_ = wanted ? step + 1 : step;
    if (wanted) timeline_step_ = last_step_;
  }

  /// The other ranks wait meanwhile: what there is no memory for is let go of, and touches nobody.
  void keep_state(const Act& act, std::int64_t steps) {
    try {
      gather_state(act, steps);
      return;
    } catch (const std::bad_alloc&) {
      if (!options_.on_state_lost) throw;
    }
    options_.on_state_lost(steps);
  }

  void gather_state(const Act& act, std::int64_t steps) {
    TrainingState state = collect_state(states(*act.context), plan_);
    state.steps = steps;
    state.scale = ranks_[0]->scale();
    state.samples = act.segment.first_sample + (steps - act.segment.first_step) * act.segment.global_batch_size;
    options_.on_state(state);
  }

  void finish_evaluation(const EvaluationResult& done) {
    result_.evaluations.push_back(done);
    if (options_.on_evaluation) options_.on_evaluation(done);
  }

  /// A step of the full batch is what a simulation of the whole plan predicts.
  void begin_timeline(const Act& act, double seconds) {
    const bool full = act.segment.global_batch_size == plan_.training.global_batch_size;
    timeline_ = std::make_shared<Timeline>();
    timeline_->performer = Performer::executed;
    timeline_->plan_json = to_json(full ? plan_ : act.context->plan);
    timeline_->step_time = Duration::seconds(seconds);
  }

  RunResult take_result() {
    for (const auto& rank : ranks_) result_.ranks.push_back(rank->books());
    if (failure_.failure()) return std::move(result_);  // the step that failed left weights and a timeline in parts
    if (options_.gather_weights)
      result_.weights = gather(states(*script_.acts().front().context), "weights", kept_type(plan_, "weights"));
    if (timeline_)
      for (const auto& rank : ranks_) timeline_->lanes.push_back(rank->lane().value());
    result_.timeline = timeline_;
    return std::move(result_);
  }

  const Plan& plan_;
  const Script& script_;
  const RunOptions& options_;
  Rendezvous gate_;
  std::int64_t last_step_, timeline_step_;  ///< rank 0 brings them forward when the run is stopped
  FirstFailure failure_;
  std::atomic<std::int64_t> step_;
  std::atomic<bool> evaluating_ = false;
  std::vector<Communicator*> comms_;
  RunResult result_;
  std::shared_ptr<Timeline> timeline_;
  std::vector<std::unique_ptr<RankSeat>> ranks_;  ///< last: their threads use all of the above
};

RunResult run_script(const Plan& plan, const TokenSource& data, const RunOptions& options,
                     const std::function<GraphOf(const Segment&)>& graph_of) {
  require_trainable(plan);
  require_vocabulary(plan, data.vocab_size());
  require_steps_left(options.resume, options.steps);
  if (options.evaluation_data != nullptr) require_vocabulary(plan, options.evaluation_data->vocab_size());
  const auto performable = [&](const Segment& s) {
    const GraphOf g = graph_of(s);
    require_no_host_copies(plan, g.graph);
    return g;
  };
  const Script script(plan, performable, data, options);
  return Run(plan, script, options).train();
}

}  // namespace

RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options) {
  return run_script(graphs.plan(), data, options, [&](const Segment& s) {
    const GraphCache::Entry& e = graphs.of(s);
    return GraphOf{e.plan, e.graph};
  });
}

RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options) {
  require(plan.training.batch_rampup.start == 0, "a ramp-up needs a graph a batch size: give a cache of graphs");
  GraphCache evaluation(plan);
  return run_script(plan, data, options, [&](const Segment& s) {
    if (s.kind == Segment::Kind::train) return GraphOf{plan, graph};
    const GraphCache::Entry& e = evaluation.of(s);
    return GraphOf{e.plan, e.graph};
  });
}

}  // namespace tandem::exec
