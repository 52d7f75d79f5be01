#pragma once
// The order in which a backend performs what it is given, and places in that order.

#include <chrono>
#include <cstddef>
#include <span>

#include "exec/backend/launch.hpp"

namespace tandem::exec {

/// A place in a queue, which Queue::mark sets; setting it again moves it. A mark that was never set counts as reached.
class Mark {
 public:
  virtual ~Mark() = default;
  /// The host waits until everything issued before it has ended. Throws what that failed with.
  virtual void wait() = 0;
  /// When the queue came to it. Only after wait(), or after finish() of its queue.
  virtual std::chrono::steady_clock::time_point reached() const = 0;
};

/// Performs what is issued to it one after the other. An asynchronous backend's calls return once the work is noted; other backends'
/// return when it is done. One thread at a time may issue.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Makes whatever a run() of the same operation with the same operands needs, so that this only enqueues. Touches no operand. Before
  /// anything of the step is issued; nothing depends on it but when things are done.
  virtual void prepare(const Launch&) {}
  /// Throws DeviceError, here or where the host next waits for it.
  virtual void run(const Launch& launch) = 0;
  /// Copies from the host to an address of the backend; `from` may go when this returns.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  /// Copies to the host, which must leave `to` alone until it has waited for the queue.
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void mark(Mark& mark) = 0;
  /// What is issued from now on starts only when `mark`, as it is set now, was reached.
  virtual void wait(const Mark& mark) = 0;
  /// The host waits until everything issued has ended. Throws what the first of it failed with; nothing issued behind a failure
  /// is performed.
  virtual void finish() = 0;
};

}  // namespace tandem::exec
