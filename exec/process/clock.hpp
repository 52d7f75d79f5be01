#pragma once
// Process 0's time. The records of all processes use it.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::exec {

/// Converts between this process' clock and process 0's steady clock, in nanoseconds. Thread-safe.
class SharedClock {
 public:
  using Steady = std::chrono::steady_clock;

  static std::int64_t local_ns(Steady::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }
  std::int64_t now() const { return local_ns(Steady::now()) + ahead_; }
  /// Converts a time of process 0 to this process' clock.
  Steady::time_point here(std::int64_t shared_ns) const { return Steady::time_point(std::chrono::nanoseconds(shared_ns - ahead_)); }

  /// ns: process 0's clock minus this process' clock.
  void set_ahead(std::int64_t ns) { ahead_ = ns; }
  std::int64_t ahead() const { return ahead_; }

 private:
  std::atomic<std::int64_t> ahead_ = 0;
};

}  // namespace tandem::exec
