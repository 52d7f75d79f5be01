#include "exec/cuda/device_clock.hpp"

namespace tandem::exec::cuda {

void DeviceClock::set() {
  begin_.record(stream_);
  stream_.wait();
  began_ = std::chrono::steady_clock::now();
}

void DeviceClock::refresh() {
  constexpr std::chrono::seconds kLong{1};  // a float of milliseconds has a resolution of 60 ns at one second
  std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() - began_ > kLong) set();
}

DeviceClock::TimePoint DeviceClock::time_of(const Event& event) const {
  std::lock_guard lock(mutex_);
  const std::chrono::duration<double> since(event.since(begin_));
  return began_ + std::chrono::duration_cast<TimePoint::duration>(since);
}

}  // namespace tandem::exec::cuda
