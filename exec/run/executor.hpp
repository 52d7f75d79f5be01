#pragma once
// One rank's step as it really happens: its thread walks the program in issue order, computing itself, or issuing to its backend's
// queues, and handing communication to a thread per stream.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/backend/backend.hpp"
#include "exec/data/batch_reader.hpp"
#include "exec/run/known_counts.hpp"
#include "exec/run/queue_order.hpp"
#include "exec/run/run_context.hpp"
#include "exec/run/run_result.hpp"
#include "exec/run/stream_worker.hpp"
#include "exec/run/task_board.hpp"
#include "exec/state/param_layout.hpp"

namespace tandem::exec {

/// Thrown on a rank's thread when another thread of it has failed already.
struct Cancelled {};

/// What one rank owns, and its executors of all graphs share.
struct RankParts {
  Rank rank;
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Memory> arena;
  std::shared_ptr<StateMemory> states;  ///< where some are offloaded; else nothing

  /// What states are read from and written to.
  Memory& state_memory() const { return states ? *states : *arena; }
};

class RankExecutor {
 public:
  /// `failed` is called on whichever thread failed, inside its exception handler; it must not throw.
  RankExecutor(const RunContext& run, RankParts parts, std::function<void(Rank)> failed);

  /// One step, from the first issue to the end of the last task. Keeps its spans when `record`; `origin` is their zero.
  void run_step(const StepTable& start, std::optional<TimePoint> record);

  /// What the rank keeps of its stage's parameters.
  RankState state();

  /// Wakes the rank's waits with Cancelled.
  void cancel();
  /// Returns when nothing of the rank's step is being performed any more; behind a failure, once every communicator was aborted.
  void settle() noexcept;

  Rank rank() const { return parts_.rank; }
  const Program& program() const { return program_; }
  /// As the step that has ended left it.
  StepTable table() const { return read_value<StepTable>(parts_.backend->step_table(), 0); }
  RankBooks books() const;
  /// Of its backend, and of what the plan asks for and the executor does without.
  std::vector<std::string> notes() const;
  Lane lane() const;

 private:
  /// One thread's notes; nobody else writes them.
  struct StreamNotes {
    std::vector<std::pair<std::uint32_t, std::uint16_t>> order;
    std::int64_t touched = 0;
    std::vector<std::int32_t> rows_sent, rows_received;  ///< of the collective under way
  };
  struct Stamps { TimePoint issued, ready, started, ended; };
  struct Operands;

  void prepare();
  static Launch launch_of(const Task& task, const Operands& at, const KernelContext& context);
  void start_workers(const std::function<void(Rank)>& failed);
  void begin_step(const StepTable& start, bool record);
  void fill_inputs();
  void fill_inputs(const Instance& instance);
  /// Whether a step can be issued to the queues once and replayed: it only computes, and the host reads nothing meanwhile.
  bool can_replay() const;
  /// Issues the step's tasks, or replays them from the second step on.
  void perform_step();
  std::int64_t first_sequence(std::int32_t micro_batch) const;
  void issue_all();
  /// Of computations that queues have performed.
  void take_times();
  void issue(TaskRef ref);
  KernelContext context_of(const Instance& instance) const;
  void execute(std::uint32_t number, const KernelContext& context);
  void compute(std::uint32_t number, const Operands& at, const KernelContext& context);
  /// Puts the communication on its stream's queue.
  void issue_communication(std::uint32_t number, const Operands& at);
  /// Does the communication and returns when its last participant had arrived.
  TimePoint communicate(const Task& task, const Instance& instance, const Operands& at);
  Operands resolve(const Task& task, const Instance& instance, StreamNotes& notes);
  /// The end of a HostCopy that is in the host's memory.
  Tensor locate_on_host(const Task& copy, const Instance& instance) const;
  Tensor locate(const Operand& operand, const Instance& instance, StreamNotes& notes);
  void note_routing(const Task& task, const Instance& instance, const Operands& at);
  TimePoint collect(const Collective& op, const Task& task, const Operands& at);
  /// Buffers of a collective; `ids` gives the numbers of a tensor of them.
  using Ids = std::function<std::vector<std::int32_t>(const Tensor& tensor)>;
  MemberBuffers buffers_of(const Collective& op, const Task& task, const Operands& at, const Ids& ids);
  /// Numbers of rows on the issuing thread, which waits for them where it has not read them yet.
  const KnownCounts::Numbers& counts_of(std::uint32_t number, const Tensor& tensor);
  /// Forgets the counts that a task is about to write.
  void forget_written(const Task& task, const Instance& instance);
  /// Bytes of a tensor that nobody is writing.
  std::vector<std::int32_t> read_ids(const Tensor& tensor) const;

  /// The message that `instance` exchanges with the stage `offset` away.
  MessageName sent(const Instance& instance, int offset) const;
  MessageName received(const Instance& instance, int offset) const;
  std::int64_t tag(const Instance& instance, std::int64_t virtual_stage) const;
  StreamNotes& notes(Stream s) { return notes_[static_cast<std::size_t>(s)]; }
  bool runs_ahead() const { return queues_ != nullptr; }
  Performing how() const {
    if (!runs_ahead()) return Performing::where_issued;
    return parts_.comm->blocks() ? Performing::on_queues : Performing::all_on_queues;
  }
  TimePoint now() const { return record_ ? std::chrono::steady_clock::now() : TimePoint{}; }

  const RunContext& run_;
  RankParts parts_;
  const Coords coords_;
  const Program& program_;
  const StepOrder& order_;
  const BatchReader reader_;
  std::vector<std::vector<Rank>> groups_;  ///< by Group
  std::vector<std::int64_t> positions_;    ///< by Group: of this rank
  TaskBoard board_;
  KernelContext rank_context_;             ///< what all its tasks share
  KernelContext context_;                  ///< of the instance that is being issued
  StepTable start_;                        ///< the step's, as the host wrote it
  std::vector<std::int32_t> ids_;          ///< what a slot is filled with
  bool record_ = false;
  TimePoint origin_;
  std::vector<Stamps> stamps_;             ///< by task number, of the recorded step
  std::vector<RouterCounts> routing_;      ///< of the recorded step
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issued_;
  std::array<StreamNotes, kStreams> notes_;
  std::unique_ptr<QueueOrder> queues_;     ///< where the backend runs ahead
  const bool reads_counts_;                ///< the host reads counts while it issues
  KnownCounts counts_;
  const bool wants_replays_, replays_;
  bool issued_once_ = false;               ///< all that is planned or allocated on first use is there
  std::unique_ptr<Replay> replay_;
  std::array<std::unique_ptr<StreamWorker>, kStreams> workers_;  ///< last: their threads use all of the above
};

}  // namespace tandem::exec
