#include "exec/run/run.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <new>
#include <set>

#include "exec/communicator/rendezvous.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/process/remote_memory.hpp"
#include "exec/process/carrier.hpp"
#include "exec/process/together.hpp"
#include "exec/run/lines.hpp"
#include "exec/run/packed_books.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/run/rank_session.hpp"
#include "exec/run/requirements.hpp"
#include "exec/run/step_numbers.hpp"
#include "exec/state/gather.hpp"
#include "exec/state/initialise.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/ops/row_room.hpp"
#include "models/plan/adapters.hpp"
#include "models/plan/kept_type.hpp"
#include "models/planfile/plan_trained.hpp"

namespace tandem::exec {
namespace {

/// Call it inside an exception handler. If the failure is a lost peer, reports that peer before the carrier's own message spreads.
void note_lost_peer(World& world) {
  try {
    throw;
  } catch (const PeerLost& e) {
    world.lost(e.process);
  } catch (...) {
  }
}

/// This process' part of a run: its ranks. The thread of its first rank communicates with the other processes.
class Run {
 public:
  Run(const Plan& plan, const Script& script, const RunOptions& options, World& world)
      : plan_(plan),
        script_(script),
        options_(options),
        world_(world),
        here_(world.here()),
        gate_(here_.size()),
        scores_(here_.size()),
        last_step_(options.steps - 1),
        timeline_step_(options.timeline_step),
        step_(options.resume != nullptr ? options.resume->facts().steps : 0) {}

  RunResult train() {
    if (make_ranks()) {
      const RunContext& first = *script_.acts().front().context;
      begin_states(first);
      for (auto& rank : ranks_) rank->scale() = scale_at_start(plan_, options_.resume);
      run_threads();
      if (world_.step_stopped()) save_stopped();
      else if (states_whole_) keep_last();
    }
    if (options_.keeper != nullptr && (!failure_.failure() || !world_.several())) options_.keeper->finish();
    if (failure_.failure() && options_.on_failure) options_.on_failure(*failure_.failure(), take_result());
    failure_.rethrow();
    return take_result();
  }

 private:
  std::unique_ptr<Backend> make_backend(Rank rank) const {
    return options_.make_backend ? options_.make_backend(rank) : make_cpu_backend(computing_threads(plan_));
  }

  /// Returns false if a rank's memory could not be allocated. That rank's failure is recorded.
  bool make_ranks() {
    auto comms = options_.make_communicators ? options_.make_communicators(world_) : world_.make_communicators();
    for (std::size_t i = 0; i < here_.size(); ++i) try {
        make_rank(here_[i], std::move(comms[i]));
      } catch (const DeviceError&) {
        return record(here_[i]), false;
      } catch (const std::bad_alloc&) {
        return record(here_[i]), false;
      }
    return connect();
  }

  /// Whether weights from elsewhere are not all of the model's, beside adapters.
  bool lacks_weights(const RunContext& first) {
    std::set<std::string> given;
    for (const SavedTensor& t : options_.weights->tensors()) given.insert(t.name);
    const std::vector<SavedTensor> kept = kept_tensors(states_of_all(first, nullptr), plan_);
    const auto lacks = [&](const SavedTensor& t) { return !is_adapter_parameter(t.name) && !given.contains(t.name); };
    return std::any_of(kept.begin(), kept.end(), lacks);
  }

  /// Initial values, weights from elsewhere, or the state of the run that goes on.
  void begin_states(const RunContext& first) {
    if (options_.weights != nullptr) {
      lacks_weights(first) ? initialise(states(first), plan_, options_.initialise) : initialise_adapters(states(first), plan_);
      return together(world_.control(), [&] { load_weights(states_of_all(first, nullptr), plan_, *options_.weights); });
    }
    initialise(states(first), plan_, options_.initialise);
    if (options_.resume != nullptr)
      together(world_.control(), [&] { restore_state(states_of_all(first, nullptr), plan_, *options_.resume); });
  }

  /// Connects the communicators before the first step, in the same order in all processes.
  bool connect() {
    const Lines lines = lines_of(script_.contexts());
    for (std::size_t i = 0; i < comms_.size(); ++i) try {
        comms_[i]->prepare(lines, script_.mesh());
      } catch (const InfeasibleError&) {
        throw;  // an error of the plan or the build is the same in every process
      } catch (...) {
        return record(here_[i]), false;
      }
    return true;
  }

  void make_rank(Rank rank, std::unique_ptr<Communicator> comm) {
    RankParts parts{rank, make_backend(rank), std::move(comm), nullptr, nullptr};
    if (rank == here_.front())
      for (const auto* c : script_.contexts()) require_supported(c->plan, c->graph, *parts.backend);
    std::size_t documents = 0;
    for (const auto* c : script_.contexts()) documents = std::max(documents, documents_bytes(*c));
    if (documents > 0) parts.backend->documents(documents);  // for all graphs
    const auto stage = StageId(script_.mesh().coords(rank)[Axis::pp]);
    parts.arena = parts.backend->allocate(static_cast<std::size_t>(script_.arena_bytes(stage).count()));
    // 0xFF bytes are NaN as floating point, so reading a byte that nobody wrote becomes visible.
    parts.arena->fill(0, parts.arena->size(), std::byte{0xFF});
    if (const auto offloaded = script_.offloaded(stage)) {
      std::shared_ptr<Memory> host = parts.backend->allocate_host(static_cast<std::size_t>(offloaded->host().bytes().count()));
      host->fill(0, host->size(), std::byte{0});  // as initialise() clears states on the device
      parts.states = std::make_shared<StateMemory>(offloaded, parts.arena, std::move(host));
    }
    comms_.push_back(parts.comm.get());
    ranks_.push_back(std::make_unique<RankSession>(std::move(parts), [this](Rank failed) { fail(failed); }));
  }

  std::vector<RankState> states(const RunContext& context) const {
    std::vector<RankState> all;
    for (const auto& rank : ranks_) all.push_back(rank->state(context));
    return all;
  }

  /// The states of all ranks. Arenas of other processes are RemoteMemory, kept in `remote`, or nullptr if `remote` is.
  std::vector<RankState> states_of_all(const RunContext& context, std::vector<std::unique_ptr<Memory>>* remote) const {
    std::vector<RankState> all;
    for (std::int64_t r = 0; r < world_.places().ranks(); ++r) {
      const Rank rank(static_cast<std::int32_t>(r));
      const auto stage = StageId(context.mesh.coords(rank)[Axis::pp]);
      all.push_back(rank_state(context.graph.program(stage), context.mesh, rank, nullptr));
      all.back().offloaded = script_.offloaded(stage).get();
      if (const int process = world_.places().process_of(rank); remote != nullptr && process != world_.control().process()) {
        remote->push_back(std::make_unique<RemoteMemory>(world_.control(), process, rank, script_.state_bytes(stage)));
        all.back().arena = remote->back().get();
      }
    }
    for (const auto& rank : ranks_) all[rank->rank().index()] = rank->state(context);
    return all;
  }

  /// Process 0 calls `read` with the states of all ranks. The other processes serve its reads meanwhile.
  template <class F>
  void read_all(const RunContext& context, F read) const {
    if (!world_.control().first()) return serve();
    std::vector<std::unique_ptr<Memory>> remote;
    const auto all = states_of_all(context, &remote);
    try {
      read(all);
    } catch (const CommError&) {
      throw;  // nobody listens any more
    } catch (...) {
      end_serving(world_.control());
      throw;
    }
    end_serving(world_.control());
  }

  void serve() const {
    std::map<Rank, const Memory*> arenas;
    for (const auto& rank : ranks_) arenas[rank->rank()] = &rank->states();
    serve_memory(world_.control(), arenas);
  }

  /// Returns when all threads have ended. If a thread cannot be started, its rank counts as failed.
  void run_threads() {
    ThreadGroup threads;
    for (auto& rank : ranks_) try {
        threads.start([this, &rank] { rank_main(*rank); });
      } catch (...) {
        return fail(rank->rank());
      }
  }

  // Called inside the exception handler of the failed thread. Only the first failure is reported; later ones are its consequences.
  void fail(Rank rank) {
    if (record(rank)) comms_[place(rank)]->abort(failure_.failure()->reason);
    gate_.abort();
    ranks_[place(rank)]->cancel();
  }

  /// Returns true for this process' first failure. What is kept is the first failure of all processes.
  bool record(Rank rank) {
    if (!record_here(rank)) return false;
    if (!world_.several()) return true;
    if (states_whole_) world_.stop_step(failure_.told());
    if (world_.step_stopped()) return failure_.adopt(world_.stop_cause()), true;
    note_lost_peer(world_);
    failure_.adopt(world_.fail(failure_.told()));
    return true;
  }

  /// Records too many rows as a failure of the rank that gets most of them, whichever rank has found out.
  bool record_here(Rank rank) {
    try {
      throw;
    } catch (const RowsError& e) {
      try {
        throw DeviceError(too_many_rows(plan_, e));
      } catch (const DeviceError&) {
        const bool first = failure_.record(e.rank() == Rank() ? rank : e.rank(), step_, activity_);
        if (first) states_whole_ = e.room() > 0;
        return first;
      }
    } catch (...) {
      return failure_.record(rank, step_, activity_);
    }
  }

  std::size_t place(Rank rank) const { return rank.index() - here_.front().index(); }
  bool speaks(const RankSession& rank) const { return rank.rank() == here_.front(); }

  void rank_main(RankSession& rank) {
    try {
      for (const Act& act : script_.acts()) {
        rank.enter(act);
        act.segment.kind == Segment::Kind::train ? train(rank, act) : evaluate(rank, act);
      }
    } catch (...) {
      fail(rank.rank());
    }
  }

  /// Sets what the ranks work on, for failure messages.
  void doing(std::int64_t step, Activity what) { step_ = step, activity_ = what; }

  /// Every rank calls it between the two meetings of a step, or of a batch of an evaluation.
  void begin_work(std::int64_t step, Activity what) {
    doing(step, what);
    meets_again_ = true;
  }

  /// Blocks until all ranks of all processes have arrived; returns when the last one did. `step`: the step that begins then.
  /// timeline_step_ is final only once the speaking rank has arrived.
  TimePoint meet(std::int64_t step = -1) {
    if (!gate_.arrive([&] { meet_processes(step >= 0 && step == timeline_step_); })) throw Cancelled{};
    return met_at_;
  }

  /// Clocks are aligned before a recorded step.
  void meet_processes(bool recorded) {
    if (recorded) world_.align();
    bool stopped = false;
    for (const Bytestring& one : world_.control().gather(Packer().add(world_.step_stopped()).take()))
      stopped = Unpacker(one).get<bool>() || stopped;
    const Bytestring met = world_.control().broadcast(Packer().add(world_.clock().now()).add(stopped).take());
    Unpacker from(met);
    met_at_ = world_.clock().here(from.get<std::int64_t>());
    meets_again_ = false;
    if (!from.get<bool>()) return;
    failure_.record(world_.stop_cause());
    throw Cancelled{};
  }

  /// Saves the last finished step after a step that was stopped. All processes call it, and have finished the same steps: none begins
  /// a step before all have met.
  void save_stopped() try {
    if (meets_again_) meet_stopped();
    keep_last();
    if (options_.keeper != nullptr) options_.keeper->finish();
    world_.control().barrier();  // launchers kill all processes when one ends
    failure_.adopt(world_.fail(failure_.told()));
  } catch (const CommError&) {  // one of them has died meanwhile
    note_lost_peer(world_);
    failure_.adopt(world_.fail(failure_.told()));
  }

  /// The meeting at the step's end, for which this process' ranks have not come.
  void meet_stopped() try {
    meet_processes(false);
  } catch (const Cancelled&) {
  }

  void train(RankSession& rank, const Act& act) {
    for (std::int64_t i = 0; i < act.segment.steps; ++i) {
      const std::int64_t step = act.segment.first_step + i;
      const StepTable table =
          with_update(step_table(act.segment, i), plan_.training.optimizer, script_.progress(act.segment, i), rank.scale());
      const auto begin = meet(step);
      if (step > last_step_) return;
      begin_work(step, Activity::training);
      const bool recorded = step == timeline_step_;
      rank.enter(act).run_step(table, recorded ? std::optional(begin) : std::nullopt);
      rank.scale() = behind(rank.enter(act).table(), rank.scale());
      const auto end = meet();
      if (recorded) rank.keep_lane();
      if (speaks(rank)) finish_step(act, step, std::chrono::duration<double>(end - begin).count());
    }
  }

  void evaluate(RankSession& rank, const Act& act) {
    double sum = 0, shares = 0;  // every target counts equally
    for (std::int64_t i = 0; i < act.segment.steps; ++i) {
      meet();
      if (act.segment.first_step > last_step_ + 1) return;
      begin_work(act.segment.first_step - 1, Activity::evaluation);
      RankExecutor& executor = rank.enter(act);
      if (options_.on_scores) executor.keep_scores();
      executor.run_step(step_table(act.segment, i), std::nullopt);
      if (options_.on_scores) scores_[place(rank.rank())] = executor.scores();
      meet();
      if (speaks(rank) && options_.on_scores) report_scores();
      shares += executor.target_share();
      if (speaks(rank)) sum += collect(act).loss * executor.target_share();
    }
    if (!speaks(rank) || !world_.control().first()) return;
    finish_evaluation({act.segment.first_step - 1, shares > 0 ? sum / shares : 0});
  }

  /// Process 0 gets the batch's scores from all processes. Context ranks have parts of the same sequences.
  void report_scores() {
    Packer own;
    for (const auto& scores : scores_) own.add(scores);
    std::map<std::int64_t, SequenceScore> all;
    for (const Bytestring& bytes : world_.control().gather(own.take()))
      for (Unpacker from(bytes); !from.empty();)
        for (const SequenceScore& s : from.get_vector<SequenceScore>()) add(all[s.sequence], s);
    if (!world_.control().first()) return;
    std::vector<SequenceScore> batch;
    for (const auto& [sequence, score] : all) batch.push_back(score);
    options_.on_scores(batch);
  }

  static void add(SequenceScore& to, const SequenceScore& part) {
    to.sequence = part.sequence;
    to.loss += part.loss, to.targets += part.targets, to.hits += part.hits;
    to.label_loss += part.label_loss, to.labels += part.labels, to.label_hits += part.label_hits;
  }

  /// The reduced gradients, divided by the loss scale.
  static std::vector<GatheredTensor> gradients(std::span<const RankState> all, DType kept, double inverse_scale) {
    std::vector<GatheredTensor> tensors = gather(all, "gradients", kept);
    for (GatheredTensor& t : tensors)
      for (double& v : t.values) v *= inverse_scale;
    return tensors;
  }

  /// One process' report of a step, and process 0's combination of all reports.
  struct StepReport {
    double loss = std::nan(""), mtp = std::nan("");  ///< `mtp`: the modules' losses with their weights
    bool has_loss = false, stop = false;
  };

  /// Only the last virtual stage has the losses. After the step they are already summed over the data group.
  StepReport own_report(const RunContext& context, bool with_modules) const {
    for (const auto& rank : ranks_) {
      const RankState state = rank->state(context);
      const auto offset = state_offset(state, "loss");
      if (offset < 0) continue;
      const auto at = static_cast<std::size_t>(offset);
      const double mtp = with_modules ? read_value<double>(*state.arena, at + sizeof(double)) : std::nan("");
      return {read_value<double>(*state.arena, at), mtp, true, false};
    }
    return {};
  }

  const MtpSpec& modules() const { return plan_.model.mtp; }

  /// The mean of the modules' losses. A weight of 0 leaves nothing to read it from.
  std::optional<double> mtp_loss(const StepReport& report) const {
    if (modules().num_layers == 0 || modules().loss_scale == 0) return std::nullopt;
    return report.mtp / modules().loss_scale;
  }

  /// At process 0: the losses, from the first process that has them, and whether any process wants to stop.
  StepReport collect(const Act& act, bool asks = false) const {
    StepReport mine = own_report(*act.context, act.segment.kind == Segment::Kind::train && modules().num_layers > 0);
    mine.stop = asks && !world_.control().first() && options_.stop && options_.stop();
    StepReport sum;
    for (const Bytestring& bytes : world_.control().gather(Packer().add(mine).take())) {
      const auto one = Unpacker(bytes).get<StepReport>();
      if (one.has_loss && !sum.has_loss) sum.loss = one.loss, sum.mtp = one.mtp, sum.has_loss = true;
      sum.stop = sum.stop || one.stop;
    }
    return sum;
  }

  // Runs on the speaking thread of each process while the other ranks wait for the next step to begin.
  void finish_step(const Act& act, std::int64_t step, double seconds) {
    if (!noted_ && options_.on_note)
      for (const std::string& note : ranks_.front()->notes()) options_.on_note(note);
    noted_ = true;
    const StepReport report = collect(act, step < last_step_);
    const StepTable s = ranks_.front()->enter(act).table();
    if (options_.gather_gradients)
      read_all(*act.context, [&](const auto& all) {
        result_.gradients.push_back(gradients(all, plan_.training.dtypes.gradients, s.inverse_scale));
      });
    if (step == timeline_step_) begin_timeline(act, seconds);
    const StepResult done{step,    report.loss, s.grad_norm, s.learning_rate,
                          seconds, act.segment.global_batch_size, 1 / s.inverse_scale, mtp_loss(report)};
    if (world_.control().first()) conclude_step(done, report.stop);
    share_end();
    last_act_ = &act;
    finished_ = step + 1;
    if (options_.keeper == nullptr) return;
    const bool due = step == last_step_ || (options_.state_every > 0 && (step + 1) % options_.state_every == 0);
    due ? keep_state(act, step + 1) : options_.keeper->go_on();
  }

  void conclude_step(const StepResult& done, bool stop) {
    const std::int64_t step = done.step;
    result_.steps.push_back(done);
    if (options_.on_step) options_.on_step(done);
    if (step < last_step_ && (stop || (options_.stop && options_.stop()))) stop_behind(step);
  }

  /// Process 0 broadcasts the run's last step and its recorded step.
  void share_end() {
    const Bytestring end = world_.control().broadcast(Packer().add(last_step_).add(timeline_step_).take());
    Unpacker from(end);
    last_step_ = from.get<std::int64_t>();
    timeline_step_ = from.get<std::int64_t>();
  }

  /// Sets the last step. The other ranks read it after meeting rank 0 for the next step.
  void stop_behind(std::int64_t step) {
    const bool wanted = timeline_step_ == options_.steps - 1;
    last_step_ = wanted ? step + 1 : step;
    if (wanted) timeline_step_ = last_step_;
  }

  /// Saves the state behind the last finished step, unless it is saved. No rank may run any more.
  void keep_last() {
    if (options_.keeper != nullptr && finished_ > kept_) keep_state(*last_act_, finished_);
  }

  /// The other ranks wait while the state is saved.
  void keep_state(const Act& act, std::int64_t steps) {
    kept_ = steps;
    doing(steps - 1, Activity::saving);
    const std::vector<RankState> world = states_of_all(*act.context, nullptr);
    const std::int64_t samples = act.segment.first_sample + (steps - act.segment.first_step) * act.segment.global_batch_size;
    const auto with_all = [&](const auto& read) { read_all(*act.context, read); };
    options_.keeper->keep({{steps, samples, ranks_.front()->scale(), script_.tokens_after(samples)}, plan_, world, with_all});
  }

  void finish_evaluation(const EvaluationResult& done) {
    result_.evaluations.push_back(done);
    if (options_.on_evaluation) options_.on_evaluation(done);
  }

  /// Stores the whole plan if the step has the full batch, because a simulation of the plan predicts such a step; else the step's
  /// own plan.
  void begin_timeline(const Act& act, double seconds) {
    const bool full = act.segment.global_batch_size == plan_.training.global_batch_size;
    timeline_ = std::make_shared<Timeline>();
    timeline_->performer = Performer::executed;
    timeline_->plan_json = to_json(full ? plan_ : act.context->plan);
    timeline_->step_time = Duration::seconds(seconds);
  }

  RunResult take_result() {
    std::vector<RankBooks> mine;
    for (const auto& rank : ranks_) mine.push_back(rank->books());
    if (failure_.failure()) {  // the failed step left weights and timeline incomplete
      result_.ranks = std::move(mine);
      return std::move(result_);
    }
    if (options_.gather_weights)
      read_all(*script_.acts().front().context,
               [&](const auto& all) { result_.weights = gather(all, "weights", kept_type(plan_, "weights")); });
    collect_ranks(mine);
    result_.timeline = timeline_;
    return std::move(result_);
  }

  /// Collects the counters and lanes of all ranks, in ascending order.
  void collect_ranks(const std::vector<RankBooks>& mine) {
    Packer own;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      pack(own, mine[i]);
      own.add(timeline_ != nullptr);
      if (timeline_) pack(own, ranks_[i]->lane().value());
    }
    for (const Bytestring& bytes : world_.control().gather(own.take()))
      for (Unpacker from(bytes); !from.empty();) {
        result_.ranks.push_back(unpack_books(from));
        if (from.get<bool>()) timeline_->lanes.push_back(unpack_lane(from));
      }
  }

  const Plan& plan_;
  const Script& script_;
  const RunOptions& options_;
  World& world_;
  const std::vector<Rank> here_;            ///< this process' ranks, ascending and contiguous
  Rendezvous gate_;                         ///< barrier of this process' ranks; the last to arrive then meets the other processes
  TimePoint met_at_;                        ///< of the latest meeting
  std::vector<std::vector<SequenceScore>> scores_;  ///< by rank of this process: of the batch that was evaluated last
  std::int64_t last_step_, timeline_step_;  ///< process 0 lowers them when the run is stopped early
  FirstFailure failure_;
  std::atomic<std::int64_t> step_;
  std::atomic<Activity> activity_ = Activity::start;
  std::vector<Communicator*> comms_;
  bool noted_ = false;                      ///< on_note was called already
  const Act* last_act_ = nullptr;           ///< of the last finished step
  std::int64_t finished_ = 0;               ///< steps after the last finished one; 0: this run finished none
  std::int64_t kept_ = 0;                   ///< steps of the last saved state
  std::atomic<bool> meets_again_ = false;   ///< between the two meetings of a step
  /// Whether the step that failed has changed no state: rows have no room before an exchange without which no gradient is complete.
  std::atomic<bool> states_whole_ = false;
  RunResult result_;
  std::shared_ptr<Timeline> timeline_;
  std::vector<std::unique_ptr<RankSession>> ranks_;  ///< last: their threads use all of the above
};

struct RunInput {
  const TokenSource& data;
  const RunOptions& options;
  World& world;
};

RunResult run_script(const Plan& plan, const RunInput& in, const std::function<GraphOf(const Segment&)>& graph_of) {
  const auto& [data, options, world] = in;
  require_trainable(plan);
  require_vocabulary(plan, data.vocab_size());
  require_steps_left(options.resume, options.steps, options.evaluation);
  if (options.evaluation_data != nullptr) require_vocabulary(plan, options.evaluation_data->vocab_size());
  const Script script(plan, graph_of, data, options);
  if (!world.several()) world.place(script.mesh().world_size());
  return Run(plan, script, options, world).train();
}

}  // namespace

RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options) {
  World alone;
  return run(graphs, data, options, alone);
}

RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options, World& world) {
  return run_script(graphs.plan(), {data, options, world}, [&](const Segment& s) {
    const GraphCache::Entry& e = graphs.of(s);
    return GraphOf{e.plan, e.graph};
  });
}

RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options) {
  require(plan.training.batch_rampup.start == 0, "a ramp-up needs a graph a batch size: give a cache of graphs");
  GraphCache evaluation(plan);
  World alone;
  return run_script(plan, {data, options, alone}, [&](const Segment& s) {
    if (s.kind == Segment::Kind::train) return GraphOf{plan, graph};
    const GraphCache::Entry& e = evaluation.of(s);
    return GraphOf{e.plan, e.graph};
  });
}

}  // namespace tandem::exec
