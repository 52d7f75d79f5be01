#pragma once
// One rank's step as it really happens: its thread walks the program in issue order, computing itself and handing
// messages and data-parallel reductions to a thread per stream.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/data/batch_reader.hpp"
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
};

/// What a step needs to know besides its graph.
struct StepStart {
  Scalars scalars;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  ///< global index of its first sequence
};

class RankExecutor {
 public:
  /// `failed` is called on whichever thread failed, inside its exception handler; it must not throw.
  RankExecutor(const RunContext& run, RankParts parts, std::function<void(Rank)> failed);

  /// One step, from the first issue to the end of the last task. Keeps its spans when `record`; `origin` is their zero.
  void run_step(const StepStart& start, std::optional<TimePoint> record);

  /// What the rank keeps of its stage's parameters.
  RankState state();

  /// Wakes the rank's waits with Cancelled.
  void cancel();

  Rank rank() const { return parts_.rank; }
  const Program& program() const { return program_; }
  std::byte* arena() { return parts_.arena->data(); }
  const Scalars& scalars() const { return scalars_; }
  RankBooks books() const;
  Lane lane() const;

 private:
  /// One thread's notes; nobody else writes them.
  struct StreamNotes {
    std::vector<std::pair<std::uint32_t, std::uint16_t>> order;
    std::int64_t touched = 0;
  };
  struct Stamps { TimePoint issued, ready, started, ended; };
  struct Pointers;

  void start_workers(const std::function<void(Rank)>& failed);
  void begin_step(const StepStart& start, bool record);
  void begin_instance(const Instance& instance);
  void fill_inputs(const Instance& instance);
  std::int64_t first_sequence(std::int32_t micro_batch) const;
  void issue(TaskRef ref);
  void execute(std::uint32_t number);
  /// Does the task and returns when its last participant had arrived.
  TimePoint perform(const Task& task, const Instance& instance, const Pointers& at, TimePoint ready);
  Pointers resolve(const Task& task, const Instance& instance, StreamNotes& notes);
  std::byte* locate(const Operand& operand, const Instance& instance, StreamNotes& notes);
  void note_routing(const Task& task, const Instance& instance, const Pointers& at);
  TimePoint collect(const Collective& op, const Task& task, const Pointers& at);
  /// The message that `instance` exchanges with the stage `offset` away.
  MessageName sent(const Instance& instance, int offset) const;
  MessageName received(const Instance& instance, int offset) const;
  std::int64_t tag(const Instance& instance, std::int64_t virtual_stage) const;
  StreamNotes& notes(Stream s) { return notes_[static_cast<std::size_t>(s)]; }
  TimePoint now() const { return record_ ? std::chrono::steady_clock::now() : TimePoint{}; }

  const RunContext& run_;
  RankParts parts_;
  const Coords coords_;
  const Program& program_;
  const StepOrder& order_;
  const BatchReader reader_;
  std::vector<std::vector<Rank>> groups_;  ///< by Group
  std::vector<std::int64_t> positions_;    ///< by Group: of this rank
  std::vector<ParamPiece> pieces_;
  TaskBoard board_;
  Scalars scalars_;
  KernelContext context_;
  std::int64_t step_ = 0, first_sample_ = 0;
  bool record_ = false;
  TimePoint origin_;
  std::vector<Stamps> stamps_;             ///< by task number, of the recorded step
  std::vector<RouterCounts> routing_;      ///< of the recorded step
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issued_;
  std::array<StreamNotes, kStreams> notes_;
  std::array<std::unique_ptr<StreamWorker>, kStreams> workers_;  ///< last: their threads use all of the above
};

}  // namespace tandem::exec
