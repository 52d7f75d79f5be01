#include "exec/run/run.hpp"

#include <atomic>

#include "exec/communicator/rendezvous.hpp"
#include "exec/process/carrier.hpp"
#include "exec/run/own_ranks.hpp"
#include "exec/run/packed_books.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/run/requirements.hpp"
#include "exec/run/step_numbers.hpp"
#include "exec/run/step_report.hpp"
#include "exec/state/gather.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/ops/row_capacity.hpp"
#include "models/plan/data_shape.hpp"
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
  Run(const Plan& plan, const RunSegments& segments, const RunOptions& options, World& world)
      : plan_(plan),
        segments_(segments),
        options_(options),
        world_(world),
        gate_(world.here().size()),
        scores_(world.here().size()),
        last_step_(options.steps - 1),
        timeline_step_(options.timeline_step),
        step_(options.resume != nullptr ? options.resume->facts().steps : 0),
        own_(plan, segments, options, world) {}

  RunResult train() {
    if (own_.make([this](Rank unmade) { record(unmade); }, [this](Rank failed) { fail(failed); })) {
      own_.begin_states();
      for (auto& rank : own_.sessions()) rank->scale() = scale_at_start(plan_, options_.resume);
      run_threads();
      if (world_.step_stopped()) save_stopped();
      else if (states_whole_) save_behind_failure();
    }
    if (options_.keeper != nullptr && (!failure_.failure() || !world_.several())) options_.keeper->finish();
    if (failure_.failure() && options_.on_failure) options_.on_failure(*failure_.failure(), take_result());
    failure_.rethrow();
    return take_result();
  }

 private:
  /// Returns when all threads have ended. If a thread cannot be started, its rank counts as failed.
  void run_threads() {
    ThreadGroup threads;
    for (auto& rank : own_.sessions()) try {
        threads.start([this, &rank] { rank_main(*rank); });
      } catch (...) {
        return fail(rank->rank());
      }
  }

  // Called inside the exception handler of the failed thread. Only the first failure is reported; later ones are its consequences.
  void fail(Rank rank) {
    if (record(rank)) own_.communicator(rank).abort(failure_.failure()->reason);
    gate_.abort();
    own_.sessions()[own_.place(rank)]->cancel();
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
        if (first) states_whole_ = e.capacity() > 0 && own_.communicator(rank).blocks();
        return first;
      }
    } catch (...) {
      return failure_.record(rank, step_, activity_);
    }
  }

  bool speaks(const RankSession& rank) const { return rank.rank() == own_.here().front(); }

  void rank_main(RankSession& rank) {
    try {
      for (const ScheduledSegment& scheduled : segments_.all()) {
        rank.enter(scheduled);
        scheduled.segment.kind == Segment::Kind::train ? train(rank, scheduled) : evaluate(rank, scheduled);
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
  } catch (...) {
    failure_.add_unsaved();
    failure_.adopt(world_.fail(failure_.told()));
  }

  /// The same for a single process.
  void save_behind_failure() try {
    keep_last();
  } catch (...) {
    failure_.add_unsaved();
  }

  /// The meeting at the step's end, for which this process' ranks have not come.
  void meet_stopped() try {
    meet_processes(false);
  } catch (const Cancelled&) {
  }

  void train(RankSession& rank, const ScheduledSegment& scheduled) {
    for (std::int64_t i = 0; i < scheduled.segment.steps; ++i) {
      const std::int64_t step = scheduled.segment.first_step + i;
      const StepTable table =
          with_update(step_table(scheduled.segment, i), plan_.training.optimizer, segments_.progress(scheduled.segment, i),
                      rank.scale());
      const auto begin = meet(step);
      if (step > last_step_) return;
      begin_work(step, Activity::training);
      const bool recorded = step == timeline_step_;
      rank.enter(scheduled).run_step(table, recorded ? std::optional(begin) : std::nullopt);
      rank.scale() = behind(rank.enter(scheduled).table(), rank.scale());
      const auto end = meet();
      if (recorded) rank.keep_lane();
      if (speaks(rank)) finish_step(scheduled, step, std::chrono::duration<double>(end - begin).count());
    }
  }

  void evaluate(RankSession& rank, const ScheduledSegment& scheduled) {
    double sum = 0, shares = 0;  // every target counts equally
    for (std::int64_t i = 0; i < scheduled.segment.steps; ++i) {
      meet();
      if (scheduled.segment.first_step > last_step_ + 1) return;
      begin_work(scheduled.segment.first_step - 1, Activity::evaluation);
      RankExecutor& executor = rank.enter(scheduled);
      if (options_.on_scores) executor.keep_scores();
      executor.run_step(step_table(scheduled.segment, i), std::nullopt);
      if (options_.on_scores) scores_[own_.place(rank.rank())] = executor.scores();
      meet();
      if (speaks(rank) && options_.on_scores) report_scores();
      shares += executor.target_share();
      if (speaks(rank)) sum += collect_reports(own_, scheduled, world_.control(), {}).loss * executor.target_share();
    }
    if (!speaks(rank) || !world_.control().first()) return;
    finish_evaluation({scheduled.segment.first_step - 1, shares > 0 ? sum / shares : 0});
  }

  void report_scores() {
    const std::vector<SequenceScore> batch = collect_scores(world_.control(), scores_);
    if (world_.control().first()) options_.on_scores(batch);
  }

  /// The reduced gradients, divided by the loss scale.
  static std::vector<GatheredTensor> gradients(std::span<const RankState> all, DType kept, double inverse_scale) {
    std::vector<GatheredTensor> tensors = gather(all, "gradients", kept);
    for (GatheredTensor& t : tensors)
      for (double& v : t.values) v *= inverse_scale;
    return tensors;
  }

  const MtpSpec& modules() const { return plan_.model.mtp; }

  // Runs on the speaking thread of each process while the other ranks wait for the next step to begin.
  void finish_step(const ScheduledSegment& scheduled, std::int64_t step, double seconds) {
    if (!noted_ && options_.on_note)
      for (const std::string& note : own_.first().notes()) options_.on_note(note);
    noted_ = true;
    const ReportWanted wanted{modules().num_layers > 0, step < last_step_ ? options_.stop : nullptr};
    const StepReport report = collect_reports(own_, scheduled, world_.control(), wanted);
    const StepTable s = own_.first().enter(scheduled).table();
    if (options_.gather_gradients)
      own_.read_all(*scheduled.context, [&](const auto& all) {
        result_.gradients.push_back(gradients(all, plan_.training.dtypes.gradients, s.inverse_scale));
      });
    if (step == timeline_step_) begin_timeline(scheduled, seconds);
    const StepResult done{step,    report.loss, s.grad_norm, s.learning_rate,
                          seconds, scheduled.segment.global_batch_size, 1 / s.inverse_scale, mtp_loss(report, modules())};
    if (world_.control().first()) conclude_step(done, report.stop);
    share_end();
    last_segment_ = &scheduled;
    finished_ = step + 1;
    if (options_.keeper == nullptr) return;
    const bool due = step == last_step_ || (options_.state_every > 0 && (step + 1) % options_.state_every == 0);
    due ? keep_state(scheduled, step + 1) : options_.keeper->go_on();
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
    if (options_.keeper != nullptr && finished_ > kept_) keep_state(*last_segment_, finished_);
  }

  /// The other ranks wait while the state is saved.
  void keep_state(const ScheduledSegment& scheduled, std::int64_t steps) {
    kept_ = steps;
    doing(steps - 1, Activity::saving);
    const std::vector<RankState> world = own_.states_of_all(*scheduled.context);
    const Segment& s = scheduled.segment;
    const std::int64_t samples = s.first_sample + (steps - s.first_step) * s.global_batch_size;
    const auto with_all = [&](const auto& read) { own_.read_all(*scheduled.context, read); };
    options_.keeper->keep({{steps, samples, own_.first().scale(), segments_.tokens_after(samples)}, plan_, world, with_all});
  }

  void finish_evaluation(const EvaluationResult& done) {
    result_.evaluations.push_back(done);
    if (options_.on_evaluation) options_.on_evaluation(done);
  }

  /// Stores the whole plan if the step has the full batch, because a simulation of the plan predicts such a step; else the step's
  /// own plan.
  void begin_timeline(const ScheduledSegment& scheduled, double seconds) {
    const bool full = scheduled.segment.global_batch_size == data_shape(plan_).global_batch_size;
    timeline_ = std::make_shared<Timeline>();
    timeline_->performer = Performer::executed;
    timeline_->plan_json = to_json(full ? plan_ : scheduled.context->plan);
    timeline_->step_time = Duration::seconds(seconds);
  }

  RunResult take_result() {
    std::vector<RankBooks> mine;
    for (const auto& rank : own_.sessions()) mine.push_back(rank->books());
    if (failure_.failure()) {  // the failed step left weights and timeline incomplete
      result_.ranks = std::move(mine);
      return std::move(result_);
    }
    if (options_.gather_weights)
      own_.read_all(*segments_.all().front().context,
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
      if (timeline_) pack(own, own_.sessions()[i]->lane().value());
    }
    for (const Bytestring& bytes : world_.control().gather(own.take()))
      for (Unpacker from(bytes); !from.empty();) {
        result_.ranks.push_back(unpack_books(from));
        if (from.get<bool>()) timeline_->lanes.push_back(unpack_lane(from));
      }
  }

  const Plan& plan_;
  const RunSegments& segments_;
  const RunOptions& options_;
  World& world_;
  Rendezvous gate_;                         ///< barrier of this process' ranks; the last to arrive then meets the other processes
  TimePoint met_at_;                        ///< of the latest meeting
  std::vector<std::vector<SequenceScore>> scores_;  ///< by rank of this process: of the batch that was evaluated last
  std::int64_t last_step_, timeline_step_;  ///< process 0 lowers them when the run is stopped early
  FirstFailure failure_;
  std::atomic<std::int64_t> step_;
  std::atomic<Activity> activity_ = Activity::start;
  bool noted_ = false;                      ///< on_note was called already
  const ScheduledSegment* last_segment_ = nullptr;  ///< of the last finished step
  std::int64_t finished_ = 0;               ///< steps after the last finished one; 0: this run finished none
  std::int64_t kept_ = 0;                   ///< steps of the last saved state
  std::atomic<bool> meets_again_ = false;   ///< between the two meetings of a step
  /// Whether the step that failed has changed no state: rows have no room before an exchange without which no gradient is complete.
  /// Not with a communicator that does not block: after its abort, queues go on to updates that were enqueued.
  std::atomic<bool> states_whole_ = false;
  RunResult result_;
  std::shared_ptr<Timeline> timeline_;
  OwnRanks own_;                            ///< last: its ranks' threads use all of the above
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
  const RunSegments segments(plan, graph_of, data, options);
  if (!world.several()) world.place(segments.mesh().world_size());
  return Run(plan, segments, options, world).train();
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
