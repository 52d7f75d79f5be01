#pragma once
// A stage's program prepared for execution: tasks numbered in issue order, and the tasks that each must wait for.

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

/// Where a rank's tasks run.
enum class Performing : std::uint8_t {
  where_issued,   ///< computations on the thread that issues them
  on_queues,      ///< computations on one asynchronous queue per stream
  all_on_queues,  ///< communications on queues as well
};

/// True if the issuing thread runs or issues the tasks of stream `s`; every other stream has its own thread. A communication blocks
/// its thread. So tensor collectives get another thread if computations run ahead on queues. Host copies get their own thread if a
/// task is done when its call returns.
constexpr bool inline_stream(Stream s, Performing how) {
  return s == Stream::compute || how == Performing::all_on_queues || (s == Stream::tensor && how == Performing::where_issued) ||
         (s == Stream::host && how == Performing::on_queues);
}

/// Immutable; the ranks of a stage share it. The constructor throws ContractError if a task depends on a later one, or if a
/// computation is on a communication stream.
class StepOrder {
 public:
  StepOrder(const TaskGraph& graph, const Program& program);

  std::size_t tasks() const { return awaited_.size(); }
  std::uint32_t number(TaskRef t) const { return first_[t.instance] + t.task; }
  TaskRef ref(std::uint32_t number) const { return refs_[number]; }
  const Task& task(TaskRef t) const;
  /// Tasks that task `number` must wait for. Tasks of the same stream are omitted, because the stream keeps their order. With
  /// `where_issued`, tasks of the same thread are omitted as well.
  std::span<const std::uint32_t> waits(std::uint32_t number, Performing how) const;
  /// True if some task's waits() contain this one.
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
  std::vector<std::uint32_t> wait_begin_, waits_;  ///< a task's first entry in waits_; waits for other threads come first
  std::vector<std::uint32_t> thread_end_;          ///< by task: end of the waits for other threads
  std::vector<std::uint32_t> thread_waits_;        ///< same-thread waits of the task being added
  std::vector<std::uint8_t> awaited_;
  std::array<bool, kStreams> uses_{};
};

}  // namespace tandem::exec
