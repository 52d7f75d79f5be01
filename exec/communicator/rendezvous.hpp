#pragma once
// A barrier for a fixed number of threads. It blocks and never spins, because there may be more ranks than cores.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace tandem::exec {

using Clock = std::chrono::steady_clock;

/// A reusable barrier of `size` threads. abort() interrupts it while it fills; once full, it completes.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t size) : size_(size) {}

  /// Blocks until all threads have arrived. The last one runs `when_full` before it
  /// wakes the others. If that throws, only the last one gets the exception; the others
  /// stay until abort(). Returns the last arrival's time, or nullopt if aborted before.
  template <class WhenFull>
  std::optional<Clock::time_point> arrive(WhenFull&& when_full) {
    std::unique_lock lock(mutex_);
    if (aborted_) return std::nullopt;
    if (arrived_ + 1 < size_) return wait_abortable(lock);
    const auto now = Clock::now();
    when_full();
    full_at_ = now;
    release(lock);
    return now;
  }
  std::optional<Clock::time_point> arrive() {
    return arrive([] {});
  }

  /// arrive() for threads that have already met, so none can be missing. abort() does not interrupt it.
  void meet();

  /// Makes every present and later arrive() return nullopt.
  void abort();

 private:
  std::optional<Clock::time_point> wait_abortable(std::unique_lock<std::mutex>& lock);
  void release(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::size_t size_;
  std::size_t arrived_ = 0;
  std::uint64_t generation_ = 0;
  Clock::time_point full_at_;  ///< of the latest full generation; not overwritten before every waiter of it has left
  bool aborted_ = false;
};

}  // namespace tandem::exec
