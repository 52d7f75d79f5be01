#pragma once
// Runs one rank's step. The rank's thread walks the program in issue order. It computes by itself or issues to its backend's
// queues, and hands communication to one thread per stream.

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
#include "exec/run/loss_rows.hpp"
#include "exec/run/owned_ranges.hpp"
#include "exec/run/queue_order.hpp"
#include "exec/run/run_context.hpp"
#include "exec/run/run_result.hpp"
#include "exec/run/stream_worker.hpp"
#include "exec/run/task_board.hpp"
#include "exec/state/param_layout.hpp"
#include "models/graph/host_activations.hpp"

namespace tandem::exec {

/// Thrown on a rank's thread after another thread of the same rank has failed.
struct Cancelled {};

/// The resources of one rank. The executors of all graphs share them.
struct RankParts {
  Rank rank;
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Memory> arena;
  std::shared_ptr<StateMemory> states;  ///< if some states are offloaded; else nullptr
  std::shared_ptr<Memory> activations;  ///< host memory of offloaded activations; nullptr: there are none

  /// The memory that holds the states: parameters, gradients and optimizer states.
  Memory& state_memory() const { return states ? *states : *arena; }
};

/// Bytes of KernelContext::documents of all of a rank's micro-batches; 0 where documents are joined.
std::size_t documents_bytes(const RunContext& run);

class RankExecutor {
 public:
  /// `failed` is called on the thread that failed, inside its exception handler. It must not throw.
  RankExecutor(const RunContext& run, RankParts parts, std::function<void(Rank)> failed);

  /// Runs one step, from the first issue to the end of the last task. `record`: keep the spans, relative to this time.
  void run_step(const StepTable& start, std::optional<TimePoint> record);

  /// The rank's share of its stage's parameters, and where it lies.
  RankState state();

  /// Makes the rank's waits throw Cancelled.
  void cancel();
  /// Waits until no task of the rank's step runs any more. After a failure, call it only once every communicator was aborted.
  void settle() noexcept;

  Rank rank() const { return parts_.rank; }
  const Program& program() const { return program_; }
  /// Share of the last step's positions that have a target, where the data says so; else 1.
  double target_share() const { return target_share_; }
  /// From now on, keeps what the losses of a step say of its sequences.
  void keep_scores() { scores_ = true; }
  /// The last step's scores. Tensor ranks compute the same losses, so only the first one has them.
  std::vector<SequenceScore> scores() const { return rows_.scores(); }
  /// The step table after the last step.
  StepTable table() const { return read_value<StepTable>(parts_.backend->step_table(), 0); }
  RankBooks books() const;
  /// Sentences about work that runs slower than possible, or differently from the plan.
  std::vector<std::string> notes() const;
  Lane lane() const;

 private:
  /// The records of one stream. Only the thread that executes the stream's tasks writes them.
  struct StreamNotes {
    std::vector<std::pair<std::uint32_t, std::uint16_t>> order;
    std::int64_t touched = 0;
    std::vector<std::int32_t> rows_sent, rows_received;  ///< row counts of the collective in progress
  };
  struct Stamps { TimePoint issued, ready, started, ended; };
  struct Operands;

  void prepare();
  static Launch launch_of(const Task& task, const Operands& at, const KernelContext& context);
  void start_workers(const std::function<void(Rank)>& failed);
  void begin_step(const StepTable& start, bool record);
  void count_targets();
  /// Writes where the documents of the step's sequences begin.
  void fill_documents();
  void fill_inputs();
  void fill_inputs(const Instance& instance);
  /// True if a step can be recorded once and replayed: it has no communication, and the host reads nothing during it.
  bool can_replay() const;
  /// Issues the step's tasks, or replays them from the second step on.
  void perform_step();
  std::int64_t first_sequence(std::int32_t micro_batch) const;
  void issue_all();
  /// Reads the start and end times of tasks that ran on queues.
  void take_times();
  void issue(TaskRef ref);
  KernelContext context_of(const Instance& instance) const;
  void execute(std::uint32_t number, const KernelContext& context);
  void compute(std::uint32_t number, const Operands& at, const KernelContext& context);
  /// Enqueues a communication on its stream's queue.
  void issue_communication(std::uint32_t number, const Operands& at);
  /// Performs a communication. Returns the time when its last participant arrived.
  TimePoint communicate(const Task& task, const Instance& instance, const Operands& at);
  Operands resolve(const Task& task, const Instance& instance, StreamNotes& notes);
  /// The host-memory end of a HostCopy.
  Tensor locate_on_host(const Task& copy, const Instance& instance) const;
  Tensor locate(const Operand& operand, const Instance& instance, StreamNotes& notes);
  /// Whether the rows of this loss are kept.
  bool scored(const Task& task) const;
  void note_rows(const Task& task, const Instance& instance, const Operands& at, Queue& queue);
  void note_routing(const Task& task, const Instance& instance, const Operands& at);
  TimePoint collect(const Task& task, const Instance& instance, const Operands& at);
  /// Buffers of a collective of an instance of layer (or unit) `layer`. `ids` reads the row counts from an int32 tensor.
  using Ids = std::function<std::vector<std::int32_t>(const Tensor& tensor)>;
  MemberBuffers buffers_of(const Task& task, std::int32_t layer, const Operands& at, const Ids& ids);
  /// Row counts in `tensor`. The issuing thread waits for them unless it has read them already.
  const KnownCounts::Numbers& counts_of(std::uint32_t number, const Tensor& tensor);
  /// Drops cached counts that a task is about to overwrite.
  void forget_written(const Task& task, const Instance& instance);
  /// Reads an int32 tensor. No task may be writing to it.
  std::vector<std::int32_t> read_ids(const Tensor& tensor) const;

  /// Name of the message that `instance` sends to the stage `offset` away; received(): of the one it receives from there.
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
  const std::map<std::int32_t, std::vector<OwnedRange>> owned_;  ///< by unit
  const HostActivations on_host_;
  const BatchReader reader_;
  std::vector<std::vector<Rank>> groups_;  ///< by Group
  std::vector<std::int64_t> positions_;    ///< by Group: this rank's index in it
  TaskBoard board_;
  KernelContext rank_context_;             ///< the fields that are the same for all of the rank's tasks
  KernelContext context_;                  ///< of the instance that is being issued
  StepTable start_;                        ///< this step's table, as the host wrote it
  double target_share_ = 1;
  bool scores_ = false;
  LossRows rows_;                          ///< of the last step
  Memory* documents_ = nullptr;            ///< nullptr: documents are joined
  std::vector<std::int32_t> ids_;          ///< buffer for the values that fill an input slot
  bool record_ = false;
  TimePoint origin_;
  std::vector<Stamps> stamps_;             ///< by task number, of the recorded step
  std::vector<RouterCounts> routing_;      ///< of the recorded step
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issued_;
  std::array<StreamNotes, kStreams> notes_;
  std::unique_ptr<QueueOrder> queues_;     ///< only if the backend is asynchronous
  const bool reads_counts_;                ///< the host reads row counts while it issues
  KnownCounts counts_;
  const bool wants_replays_, replays_;
  bool issued_once_ = false;               ///< a whole step was issued once, so everything made on first use exists
  std::unique_ptr<Replay> replay_;
  std::array<std::unique_ptr<StreamWorker>, kStreams> workers_;  ///< last: their threads use all of the above
};

}  // namespace tandem::exec
