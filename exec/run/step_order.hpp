#pragma once
// A stage's program laid out for execution: tasks counted through in issue order, and whom each must wait for.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::exec {

struct TaskRef {
  std::uint32_t instance;
  std::uint16_t task;
};

/// How a rank's tasks are performed.
enum class Performing : std::uint8_t {
  where_issued,   ///< computations on the thread that issues them
  on_queues,      ///< computations on a queue a stream that runs ahead of it
  all_on_queues,  ///< communications, too
};

/// True for the streams whose tasks the issuing thread runs or issues itself; the others have a thread each. A communication blocks
/// its thread, so computations run ahead of tensor collectives only where those have another. Copies to and from the host have a
/// thread of their own where a task is done when its call returns.
constexpr bool inline_stream(Stream s, Performing how) {
  return s == Stream::compute || how == Performing::all_on_queues || (s == Stream::tensor && how == Performing::where_issued) ||
         (s == Stream::host && how == Performing::on_queues);
}

/// Immutable; shared by the ranks of a stage. Throws ContractError when a task depends on one issued after it, or
/// computes on a stream that only communicates.
class StepOrder {
 public:
  StepOrder(const TaskGraph& graph, const Program& program);

  std::size_t tasks() const { return awaited_.size(); }
  std::uint32_t number(TaskRef t) const { return first_[t.instance] + t.task; }
  TaskRef ref(std::uint32_t number) const { return refs_[number]; }
  const Task& task(TaskRef t) const;
  /// Tasks to wait for, those left out that the stream's own order puts before; where tasks are performed where they are issued, also
  /// those that the issuing thread's order puts before.
  std::span<const std::uint32_t> waits(std::uint32_t number, Performing how) const;
  /// Whether any task has this one among its waits.
  bool awaited(std::uint32_t number, Performing how) const { return (awaited_[number] & bit(how)) != 0; }
  bool computes(std::uint32_t number) const { return !is_communication(task(ref(number)).op); }
  bool uses(Stream s) const { return uses_[static_cast<std::size_t>(s)]; }

 private:
  void add_instance(std::uint32_t instance, std::size_t& edge);
  void add_wait(std::uint32_t from, std::uint32_t to);
  void end_waits();
  static std::uint8_t bit(Performing how) { return how == Performing::where_issued ? 2 : 1; }

  const TaskGraph& graph_;
  const Program& program_;
  std::vector<std::uint32_t> first_;
  std::vector<TaskRef> refs_;
  std::vector<std::uint32_t> wait_begin_, waits_;  ///< of a task, those of other threads first
  std::vector<std::uint32_t> thread_end_;          ///< of a task, behind those of other threads
  std::vector<std::uint32_t> thread_waits_;        ///< of the task being added
  std::vector<std::uint8_t> awaited_;
  std::array<bool, kStreams> uses_{};
};

}  // namespace tandem::exec
