#pragma once
// The time of process 0, which all processes' records are in.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::exec {

/// Thread-safe. Nanoseconds of process 0's steady clock.
class SharedClock {
 public:
  using Steady = std::chrono::steady_clock;

  static std::int64_t local_ns(Steady::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }
  std::int64_t now() const { return local_ns(Steady::now()) + ahead_; }
  /// A moment of process 0 as this process' clock has it.
  Steady::time_point here(std::int64_t shared_ns) const { return Steady::time_point(std::chrono::nanoseconds(shared_ns - ahead_)); }

  /// By how much process 0's clock is ahead of this one.
  void set_ahead(std::int64_t ns) { ahead_ = ns; }
  std::int64_t ahead() const { return ahead_; }

 private:
  std::atomic<std::int64_t> ahead_ = 0;
};

}  // namespace tandem::exec
