#pragma once
// How long a call takes on the device when the host is ahead of it, as in a training step.

#include <cstdint>
#include <functional>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  /// Seconds of one call: the median over batches of calls between two events, after a warm-up, `busy_s` of load in all. Calls
  /// too short for the host to keep up with are queued behind a kernel that only waits. `call` enqueues on the stream.
  double seconds(const std::function<void()>& call, double busy_s) const;
  /// The same after `before_s` of the same calls without a pause: with the clocks that the card then has.
  double sustained(const std::function<void()>& call, double before_s, double busy_s) const;

 private:
  double batch(const std::function<void()>& call, std::int64_t calls, bool queued) const;
  double median(const std::function<void()>& call, double estimate, double busy_s) const;

  cudaStream_t stream_;
  Event begin_, end_;
};

}  // namespace tandem::exec::cuda
