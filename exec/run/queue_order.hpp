#pragma once
// What orders the streams of a rank whose backend runs ahead of the host.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/run/step_order.hpp"

namespace tandem::exec {

/// Computations wait for each other on the device: a mark stands behind each that another stream waits for. Communications block the
/// host, so a thread that performs one waits for such marks itself, and what waits for a communication is issued when it has ended.
/// Calls for tasks of one stream come from one thread at a time; a task's only when all that it waits for have been issued or, of
/// communications, have ended.
class QueueOrder {
 public:
  QueueOrder(Backend& backend, const StepOrder& order);
  /// Nothing is being performed any more behind it.
  ~QueueOrder() { settle(); }
  QueueOrder(const QueueOrder&) = delete;
  QueueOrder& operator=(const QueueOrder&) = delete;

  /// Before a step: whether when its computations start and end is kept.
  void record(bool wanted);
  /// Issues a computation behind all that it waits for.
  void issue(std::uint32_t number, const Launch& launch);
  /// Returns when all that a communication waits for has ended. Throws what that failed with.
  void meet(std::uint32_t number);
  /// Returns when everything issued has ended. Throws what the first of it failed with.
  void finish();
  /// The same, whatever it failed with.
  void settle() noexcept;

  struct Times { std::chrono::steady_clock::time_point started, ended; };
  /// Of a computation of a recorded step, which has ended.
  Times times(std::uint32_t number) const;

 private:
  struct Marks { std::unique_ptr<Mark> begin, end; };

  Queue& queue_of(std::uint32_t number) const;

  Backend& backend_;
  const StepOrder& order_;
  std::array<Queue*, kStreams> queues_{};  ///< of streams that compute
  std::vector<Marks> marks_;               ///< by task number: `end` where it is awaited, both where a step is recorded
  bool record_ = false;
};

}  // namespace tandem::exec
