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

/// True for the streams whose tasks the issuing thread runs itself; the others have a thread each.
constexpr bool inline_stream(Stream s) { return s == Stream::compute || s == Stream::tensor; }

/// Immutable; shared by the ranks of a stage. Throws ContractError when a task depends on one issued after it, or
/// computes on a stream that only communicates.
class StepOrder {
 public:
  StepOrder(const TaskGraph& graph, const Program& program);

  std::size_t tasks() const { return awaited_.size(); }
  std::uint32_t number(TaskRef t) const { return first_[t.instance] + t.task; }
  TaskRef ref(std::uint32_t number) const { return refs_[number]; }
  const Task& task(TaskRef t) const;
  /// Tasks to wait for, those left out that the thread's own order puts before.
  std::span<const std::uint32_t> waits(std::uint32_t number) const;
  /// Whether any task waits for this one.
  bool awaited(std::uint32_t number) const { return awaited_[number] != 0; }
  bool uses(Stream s) const { return uses_[static_cast<std::size_t>(s)]; }

 private:
  void add_instance(std::uint32_t instance, std::size_t& edge);
  void add_wait(std::uint32_t from, std::uint32_t to);

  const TaskGraph& graph_;
  const Program& program_;
  std::vector<std::uint32_t> first_;
  std::vector<TaskRef> refs_;
  std::vector<std::uint32_t> wait_begin_, waits_;
  std::vector<std::uint8_t> awaited_;
  std::array<bool, kStreams> uses_{};
};

}  // namespace tandem::exec
