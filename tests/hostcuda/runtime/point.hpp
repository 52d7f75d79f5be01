#pragma once
// A place in the order of a stream. It has no lock: threads are ordered only as CUDA orders them, so a thread sanitizer sees what is not.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::hostcuda {

/// Sleeps while `word` has this value; may return earlier.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value);
void wake(const std::atomic<std::uint32_t>& word);

class Point {
 public:
  using Clock = std::chrono::steady_clock;

  void reach() {
    time_ = Clock::now();
    done_.store(1, std::memory_order_release);
    wake(done_);
  }
  bool reached() const { return done_.load(std::memory_order_acquire) != 0; }
  void wait() const {
    while (!reached()) sleep_on(done_, 0);
  }
  /// Only of a point that is reached.
  Clock::time_point time() const { return time_; }

 private:
  std::atomic<std::uint32_t> done_{0};
  Clock::time_point time_;
};

}  // namespace tandem::hostcuda
