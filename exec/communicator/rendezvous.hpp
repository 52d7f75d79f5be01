#pragma once
// Where a fixed number of threads wait for each other. Blocks, never spins: ranks outnumber cores.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace tandem::exec {

using Clock = std::chrono::steady_clock;

/// A reusable barrier of `size` threads that can be aborted while it fills, and completes once it is full.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t size) : size_(size) {}

  /// Waits until all have arrived. The last to arrive runs `when_full` before it wakes the others; what that throws
  /// reaches only the last one, and the others stay until abort(). Returns when the last one arrived, nothing when
  /// aborted before that.
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

  /// The same for threads that have already met, so that nobody can be missing: abort() does not interrupt it.
  void meet();

  /// Wakes every thread in arrive(), now and later.
  void abort();

 private:
  std::optional<Clock::time_point> wait_abortable(std::unique_lock<std::mutex>& lock);
  void release(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::size_t size_;
  std::size_t arrived_ = 0;
  std::uint64_t generation_ = 0;
  Clock::time_point full_at_;  ///< of the latest full generation; the next one needs every waiter to have left
  bool aborted_ = false;
};

}  // namespace tandem::exec
