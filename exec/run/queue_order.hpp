#pragma once
// Orders the tasks of a rank whose backend runs ahead of the host.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/run/step_order.hpp"

namespace tandem::exec {

/// Queued tasks wait for each other on the device: a mark follows each task that another
/// stream waits for. If communication blocks the host, the thread that performs it waits
/// for these marks itself. Tasks that depend on a communication are issued after it has
/// ended. Calls for tasks of one stream must come from one thread at a time. A task may be
/// issued once all its dependencies are issued, or, if they are communications, have ended.
class QueueOrder {
 public:
  QueueOrder(Backend& backend, const StepOrder& order, Performing how);
  /// Waits until all queues are idle.
  ~QueueOrder() { settle(); }
  QueueOrder(const QueueOrder&) = delete;
  QueueOrder& operator=(const QueueOrder&) = delete;

  /// Call before a step. If `wanted`, the start and end times of queued tasks are kept.
  void record(bool wanted);
  /// True if the task runs on a queue.
  bool queued(std::uint32_t number) const { return how_ == Performing::all_on_queues || order_.computes(number); }
  /// Passes the task's queue to `work`, after everything the task depends on.
  void issue(std::uint32_t number, const std::function<void(Queue&)>& work);
  /// Blocks until all dependencies of the task, and all earlier work of its stream, have ended. Rethrows their failure.
  void meet(std::uint32_t number);
  /// Blocks until everything issued has ended. Rethrows the first failure.
  void finish();
  /// Like finish(), but ignores failures.
  void settle() noexcept;

  struct Times { std::chrono::steady_clock::time_point started, ended; };
  /// Times of a queued task. The step must have been recorded and the task must have ended.
  Times times(std::uint32_t number) const;

 private:
  struct Marks { std::unique_ptr<Mark> begin, end; };

  Queue& queue_of(std::uint32_t number) const;

  Backend& backend_;
  const StepOrder& order_;
  const Performing how_;
  std::array<Queue*, kStreams> queues_{};  ///< only of streams with queued tasks, and of the compute stream
  std::vector<Marks> marks_;               ///< by task number. `end`: another stream awaits the task; both: the step is recorded
  bool record_ = false;
};

}  // namespace tandem::exec
