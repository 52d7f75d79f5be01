#pragma once
// What orders the streams of a rank whose backend runs ahead of the host.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/run/step_order.hpp"

namespace tandem::exec {

/// What is on queues waits for each other on the device: a mark stands behind each task that another stream waits for. Where
/// communications block the host, a thread that performs one waits for such marks itself, and what waits for a communication is issued
/// when it has ended.
/// Calls for tasks of one stream come from one thread at a time; a task's only when all that it waits for have been issued or, of
/// communications, have ended.
class QueueOrder {
 public:
  QueueOrder(Backend& backend, const StepOrder& order, Performing how);
  /// Nothing is being performed any more behind it.
  ~QueueOrder() { settle(); }
  QueueOrder(const QueueOrder&) = delete;
  QueueOrder& operator=(const QueueOrder&) = delete;

  /// Before a step: whether when its computations start and end is kept.
  void record(bool wanted);
  /// Whether a task is on a queue.
  bool queued(std::uint32_t number) const { return how_ == Performing::all_on_queues || order_.computes(number); }
  /// Issues a task behind all that it waits for: `work` gets its queue.
  void issue(std::uint32_t number, const std::function<void(Queue&)>& work);
  /// Returns when all that a task waits for has ended. Throws what that failed with.
  void meet(std::uint32_t number);
  /// Returns when everything issued has ended. Throws what the first of it failed with.
  void finish();
  /// The same, whatever it failed with.
  void settle() noexcept;

  struct Times { std::chrono::steady_clock::time_point started, ended; };
  /// Of a queued task of a recorded step, which has ended.
  Times times(std::uint32_t number) const;

 private:
  struct Marks { std::unique_ptr<Mark> begin, end; };

  Queue& queue_of(std::uint32_t number) const;

  Backend& backend_;
  const StepOrder& order_;
  const Performing how_;
  std::array<Queue*, kStreams> queues_{};  ///< of streams with queued tasks
  std::vector<Marks> marks_;               ///< by task number: `end` where it is awaited, both where a step is recorded
  bool record_ = false;
};

}  // namespace tandem::exec
