#pragma once
// Converts times of CUDA events to the host's clock.

#include <chrono>
#include <mutex>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// A reference event whose host time is known; other events are timed relative to it. It is renewed from time to time, because CUDA
/// returns differences as float milliseconds.
class DeviceClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  DeviceClock() { set(); }
  /// Sets a new reference if the last one is old. Then events before it can no longer be timed.
  void refresh();
  /// The time of an event that has happened.
  TimePoint time_of(const Event& event) const;

 private:
  void set();

  mutable std::mutex mutex_;
  Stream stream_;
  Event begin_;
  TimePoint began_;
};

}  // namespace tandem::exec::cuda
