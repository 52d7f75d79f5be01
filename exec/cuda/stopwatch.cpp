#include "exec/cuda/stopwatch.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/cuda/kernels.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kWarmUp = 2, kEstimate = 3;
constexpr int kBatches = 5, kBatchesOfLong = 3;
constexpr double kLong = 10e-3;         // calls at least this long need fewer batches
constexpr double kShort = 60e-6;        // calls shorter than this may outrun the host
constexpr double kHostPerCall = 12e-6;  // generous upper limit of the host's time to enqueue a call
constexpr std::int64_t kMostQueued = 200, kMostCalls = 5000;  // the device's queue holds 1024 launches; a call may need several

}  // namespace

double Stopwatch::batch(const std::function<void()>& call, std::int64_t calls, bool queued) const {
  if (queued) spin(static_cast<double>(calls) * kHostPerCall, stream_);
  begin_.record(stream_);
  for (std::int64_t i = 0; i < calls; ++i) call();
  end_.record(stream_);
  end_.wait();
  return end_.since(begin_) / static_cast<double>(calls);
}

double Stopwatch::median(const std::function<void()>& call, double estimate, double busy_s) const {
  const bool queued = estimate < kShort;
  const int batches = estimate > kLong ? kBatchesOfLong : kBatches;
  const auto wanted = static_cast<std::int64_t>(std::ceil(busy_s / batches / estimate));
  const std::int64_t calls = std::clamp<std::int64_t>(wanted, 1, queued ? kMostQueued : kMostCalls);
  std::vector<double> times;
  for (int i = 0; i < batches; ++i) times.push_back(batch(call, calls, queued));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double Stopwatch::seconds(const std::function<void()>& call, double busy_s) const {
  for (int i = 0; i < kWarmUp; ++i) call();
  return median(call, batch(call, kEstimate, true), busy_s);
}

double Stopwatch::sustained(const std::function<void()>& call, double before_s, double busy_s) const {
  const double estimate = batch(call, 1, false);
  const auto calls = static_cast<std::int64_t>(std::ceil(before_s / estimate));
  for (std::int64_t i = 0; i < calls; ++i) call();
  return median(call, estimate, busy_s);
}

}  // namespace tandem::exec::cuda
