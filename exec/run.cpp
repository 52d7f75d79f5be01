#include "exec/run.hpp"

#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "exec/executor.hpp"
#include "exec/gather.hpp"
#include "exec/initialise.hpp"
#include "exec/learning_rate.hpp"
#include "exec/param_layout.hpp"
#include "exec/rendezvous.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

bool kept(DType t) { return t == DType::fp32 || t == DType::fp64; }

/// Gradients may travel in another type than they are kept in.
bool one_dtype(const DTypes& d) {
  return kept(d.compute) && kept(d.gradient_reduce) && d.weights == d.compute && d.gradients == d.compute &&
         d.master == d.compute && d.optimizer_state == d.compute;
}

void require_precision(const Plan& plan) {
  const auto& d = plan.training.dtypes;
  if (one_dtype(d)) return;
  throw InfeasibleError(Problem{plan.file, "training.precision", plan.training.precision,
                                "not implemented: this runtime keeps everything in one type, fp32 or fp64, and sums in one of them",
                                "set training.precision to fp32 and leave training.dtypes out"});
}

/// bert's mask is the last token of the vocabulary and stands for nothing in the data.
void require_vocabulary(const Plan& plan, const TokenSource& data) {
  const bool bert = plan.model.family == Family::bert;
  if (data.vocab_size() + (bert ? 1 : 0) <= plan.model.vocab_size) return;
  throw InfeasibleError(Problem{plan.file, "model.vocab_size", std::to_string(plan.model.vocab_size),
                                "the data has " + std::to_string(data.vocab_size()) + " different tokens" +
                                    (bert ? ", and the mask is one more" : ""),
                                "set model.vocab_size to at least " + std::to_string(data.vocab_size() + (bert ? 1 : 0))});
}

void require_no_host_copies(const Plan& plan, const TaskGraph& graph) {
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks)
      if (std::holds_alternative<HostCopy>(task.op))
        throw InfeasibleError(Problem{plan.file, "parallel.offload", "", "simulated only: this runtime has no second memory",
                                      "leave parallel.offload out to train"});
}

void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend) {
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks)
      if (!is_communication(task.op) && !backend.supports(task.op, task.dtype))
        throw InfeasibleError(Problem{plan.file, "training.precision", plan.training.precision,
                                      "the " + std::string(backend.name()) + " backend cannot do " +
                                          std::string(kind_name(task.op)) + " in " + std::string(name(task.dtype)),
                                      "choose another precision or backend"});
}

/// The first thing that went wrong, and on which rank. Thread-safe.
class FirstFailure {
 public:
  /// True for the first call.
  bool record(Rank rank, std::exception_ptr what) {
    std::lock_guard lock(mutex_);
    if (what_) return false;
    rank_ = rank, what_ = std::move(what);
    return true;
  }

  /// Throws what was recorded, with its rank in the message; a CommError names the rank it began on itself.
  void rethrow() const {
    if (!what_) return;
    const auto prefix = "rank " + std::to_string(rank_.value()) + " failed: ";
    try {
      std::rethrow_exception(what_);
    } catch (const DeviceError& e) {
      throw DeviceError(prefix + e.what());
    } catch (const ContractError& e) {
      throw ContractError(prefix + e.what());
    }
  }

 private:
  std::mutex mutex_;
  Rank rank_;
  std::exception_ptr what_;
};

std::string text_of(const std::exception_ptr& what) {
  try {
    std::rethrow_exception(what);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown failure";
  }
}

/// All ranks of one run.
class Run {
 public:
  Run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options)
      : context_{plan, graph, data, make_mesh(plan), orders(graph), input_slots(graph)},
        options_(options),
        gate_(static_cast<std::size_t>(context_.mesh.world_size())) {}

  RunResult train() {
    make_ranks();
    initialise(states(), context_.plan, options_.initialise);
    {
      std::vector<std::jthread> threads;
      for (auto& rank : ranks_) threads.emplace_back([this, &rank] { rank_main(*rank); });
    }
    failure_.rethrow();
    return take_result();
  }

 private:
  static std::vector<StepOrder> orders(const TaskGraph& graph) {
    std::vector<StepOrder> all;
    for (const auto& program : graph.programs) all.emplace_back(graph, program);
    return all;
  }

  std::unique_ptr<Backend> make_backend() const {
    return options_.make_backend ? options_.make_backend() : make_cpu_backend();
  }

  void make_ranks() {
    const auto world = static_cast<int>(context_.mesh.world_size());
    auto comms = make_thread_communicators(world);
    for (int r = 0; r < world; ++r) {
      RankParts parts{Rank(r), make_backend(), std::move(comms[static_cast<std::size_t>(r)]), nullptr};
      if (r == 0) require_supported(context_.plan, context_.graph, *parts.backend);
      const auto stage = StageId(context_.mesh.coords(Rank(r))[Axis::pp]);
      const auto bytes = context_.graph.program(stage).memory.arena_bytes.count();
      parts.arena = parts.backend->allocate(static_cast<std::size_t>(bytes));
      // All ones is not a number: what reads a byte that nobody wrote shows it.
      std::memset(parts.arena->data(), 0xFF, parts.arena->size());
      comms_.push_back(parts.comm.get());
      ranks_.push_back(std::make_unique<RankExecutor>(context_, std::move(parts), [this](Rank rank) { fail(rank); }));
    }
  }

  std::vector<RankState> states() {
    std::vector<RankState> all;
    for (auto& rank : ranks_) all.push_back(rank->state());
    return all;
  }

  // Called inside the handler of whatever thread failed. Only the first failure is news; the rest are its consequences.
  void fail(Rank rank) {
    const auto what = std::current_exception();
    if (failure_.record(rank, what)) comms_[rank.index()]->abort(text_of(what));
    gate_.abort();
    ranks_[rank.index()]->cancel();
  }

  void rank_main(RankExecutor& rank) {
    try {
      for (std::int64_t step = 0; step < options_.steps; ++step) one_step(rank, step);
    } catch (...) {
      fail(rank.rank());
    }
  }

  TimePoint meet() {
    const auto full = gate_.arrive();
    if (!full) throw Cancelled{};
    return *full;
  }

  void one_step(RankExecutor& rank, std::int64_t step) {
    const auto begin = meet();
    rank.run_step(scalars(step), step, step == options_.timeline_step ? std::optional(begin) : std::nullopt);
    const auto end = meet();
    if (rank.rank() == Rank(0)) finish_step(step, std::chrono::duration<double>(end - begin).count());
  }

  Scalars scalars(std::int64_t step) const {
    const auto& training = context_.plan.training;
    const auto t = static_cast<double>(step + 1);
    Scalars s;
    s.learning_rate = learning_rate(training.optimizer.learning_rate,
                                    {step, options_.steps, training.global_batch_size,
                                     training.global_batch_size * training.seq_length});
    s.bias_correction1 = 1 - std::pow(training.optimizer.beta1, t);
    s.bias_correction2 = 1 - std::pow(training.optimizer.beta2, t);
    return s;
  }

  /// The last virtual stage has it; after the step it is a sum over the data group.
  double loss() {
    for (auto& rank : ranks_)
      if (const auto offset = state_offset(rank->program(), "loss"); offset >= 0)
        return load(rank->arena() + offset, DType::fp64, 0);
    return std::nan("");
  }

  // On rank 0's thread while the others wait for it to begin the next step.
  void finish_step(std::int64_t step, double seconds) {
    const auto& s = ranks_[0]->scalars();
    const StepResult done{step, loss(), s.grad_norm, s.learning_rate, seconds};
    result_.steps.push_back(done);
    if (options_.gather_gradients)
      result_.gradients.push_back(gather(states(), "gradients", context_.plan.training.dtypes.gradients));
    if (step == options_.timeline_step) timeline_step_s_ = seconds;
    if (options_.on_step) options_.on_step(done);
  }

  RunResult take_result() {
    for (const auto& rank : ranks_) result_.ranks.push_back(rank->books());
    if (options_.gather_weights) result_.weights = gather(states(), "weights", context_.plan.training.dtypes.weights);
    if (options_.timeline_step >= 0 && options_.timeline_step < options_.steps) result_.timeline = timeline();
    return std::move(result_);
  }

  std::shared_ptr<const Timeline> timeline() const {
    auto t = std::make_shared<Timeline>();
    t->performer = Performer::executed;
    t->plan_json = to_json(context_.plan);
    t->step_time = Duration::seconds(timeline_step_s_);
    for (const auto& rank : ranks_) t->lanes.push_back(rank->lane());
    return t;
  }

  const RunContext context_;
  const RunOptions& options_;
  Rendezvous gate_;
  FirstFailure failure_;
  std::vector<Communicator*> comms_;
  RunResult result_;
  double timeline_step_s_ = 0;
  std::vector<std::unique_ptr<RankExecutor>> ranks_;  ///< last: their threads use all of the above
};

}  // namespace

RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options) {
  require_precision(plan);
  require_vocabulary(plan, data);
  require_no_host_copies(plan, graph);
  return Run(plan, graph, data, options).train();
}

}  // namespace tandem::exec
