#pragma once
// Measures the device time of a call while the host runs ahead, as in a training step.

#include <cstdint>
#include <functional>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  /// Seconds per call: the median over batches of calls between two events, after a warm-up, with `busy_s` seconds of load in
  /// total. Short calls are queued behind a spinning kernel, so that the host keeps ahead. `call` enqueues on the stream.
  double seconds(const std::function<void()>& call, double busy_s) const;
  /// seconds() after `before_s` seconds of uninterrupted calls, at the clock frequencies that the card then has.
  double sustained(const std::function<void()>& call, double before_s, double busy_s) const;

 private:
  double batch(const std::function<void()>& call, std::int64_t calls, bool queued) const;
  double median(const std::function<void()>& call, double estimate, double busy_s) const;

  cudaStream_t stream_;
  Event begin_, end_;
};

}  // namespace tandem::exec::cuda
