#pragma once
// When events happened, on the host's clock.

#include <chrono>
#include <mutex>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

/// One event whose time the host knows; times of others count from it. It is taken anew now and then, since CUDA gives distances as
/// floats of milliseconds.
class DeviceClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  DeviceClock() { set(); }
  /// A new beginning, if the last one is long ago. Times of events before it cannot be asked for any more.
  void refresh();
  /// Of an event that has happened.
  TimePoint time_of(const Event& event) const;

 private:
  void set();

  mutable std::mutex mutex_;
  Stream stream_;
  Event begin_;
  TimePoint began_;
};

}  // namespace tandem::exec::cuda
