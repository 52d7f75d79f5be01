#pragma once
// Queues of a backend, and marks (events) in them.

#include <chrono>
#include <cstddef>
#include <span>

#include "exec/backend/launch.hpp"

namespace tandem::exec {

/// A position in a queue, like a CUDA event. Queue::mark may set it repeatedly. A mark that was never set counts as reached.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Blocks the host until everything issued before the mark has ended. Rethrows the failure of that work.
  virtual void wait() = 0;
  /// The time at which the queue reached the mark. Valid only after wait(), or after finish() of its queue.
  virtual std::chrono::steady_clock::time_point reached() const = 0;
};

/// Performs work in the order of issue, like a CUDA stream. On an asynchronous backend the calls return as soon as the work is
/// enqueued; on others when it is done. One thread at a time may issue.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Allocates and plans what a later run() of the same launch needs, so that run() only enqueues. It touches no operand. Call it
  /// before the step starts. It affects speed only, never results.
  virtual void prepare(const Launch&) {}
  /// Performs one computation. Throws DeviceError, either here or at the host's next wait.
  virtual void run(const Launch& launch) = 0;
  /// Copies from the host to a backend address. `from` may be freed when this returns.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  /// Copies to the host. The host must not touch `to` until it has waited for the queue.
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void mark(Mark& mark) = 0;
  /// Makes all work issued later wait until `mark`, at its present position, is reached.
  virtual void wait(const Mark& mark) = 0;
  /// Blocks the host until everything issued has ended. Rethrows the first failure; work issued after a failure
  /// is not performed.
  virtual void finish() = 0;
};

}  // namespace tandem::exec
