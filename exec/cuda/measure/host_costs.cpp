#include "exec/cuda/measure/host_costs.hpp"

#include <algorithm>
#include <chrono>

#include "exec/cuda/kernels.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kRounds = 21, kLaunches = 200;

/// Median over rounds of the host seconds of `work`. `before` runs first and is not timed.
template <class B, class F>
double host_median(B before, F work) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    before();
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

std::vector<Figure> time_launches(Bench& bench) {
  const cudaStream_t s = bench.stream;
  const auto idle = [&] { bench.stream.wait(); };
  auto* counter = reinterpret_cast<std::int32_t*>(bench.outputs.data());
  const double submit = host_median(idle, [&] { for (int i = 0; i < kLaunches; ++i) empty_kernel(s); }) / kLaunches;
  const double chain = bench.stopwatch.seconds([&] { increment(counter, s); }, 0.02);
  const auto one = [&] { idle(); };
  const double launch_and_wait = host_median(one, [&] { empty_kernel(s); bench.stream.wait(); });
  const double stream_wait = host_median(one, [&] { bench.stream.wait(); });
  const Event event;
  const double event_wait = host_median(one, [&] { empty_kernel(s); event.record(s); event.wait(); });
  const double record = host_median(one, [&] { for (int i = 0; i < kLaunches; ++i) event.record(s); }) / kLaunches;
  idle();
  const std::string median = "median of " + std::to_string(kRounds);
  return {{"launch_submit", submit, "s", "host time of one launch, 200 empty kernels in a row; " + median},
          {"dependent_kernels", chain, "s", "from one kernel of one thread to the next that depends on it, host ahead; between two events"},
          {"launch_and_wait", launch_and_wait, "s", "an empty kernel on an idle stream and cudaStreamSynchronize; " + median},
          {"wait_idle_stream", stream_wait, "s", "cudaStreamSynchronize with nothing to wait for; " + median},
          {"launch_and_event", event_wait, "s", "an empty kernel, an event and cudaEventSynchronize; " + median},
          {"event_record", record, "s", "host time of cudaEventRecord, 200 in a row; " + median}};
}

}  // namespace tandem::exec::cuda
