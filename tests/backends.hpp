#pragma once
// Which backend the runtime's tests run on: the environment's TANDEM_TEST_BACKEND, "cpu" where it names none.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "exec/cpu/backend.hpp"
#include "exec/device/cuda.hpp"
#include "exec/run/run_options.hpp"
#include "models/base/threads.hpp"
#include "tests/emulated/delegating_backend.hpp"
#include "tests/emulated/emulated_backend.hpp"

namespace tandem::tests {

/// Sleeps now and then, as the seed, the rank and the stream say: which queue is ahead of which differs from seed to seed.
inline exec::Disturbance delays(std::uint64_t seed, Rank rank) {
  return [=](Stream stream) -> std::function<void()> {
    std::seed_seq parts{seed, static_cast<std::uint64_t>(rank.value()), static_cast<std::uint64_t>(stream)};
    return [random = std::mt19937(parts)]() mutable {
      const auto drawn = random();
      if (drawn % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 + (drawn >> 8) % 180));
    };
  };
}

/// The value of TANDEM_TEST_BACKEND.
enum class TestBackend { cpu, cpu_async, emulated, cuda };

inline TestBackend test_backend() {
  const char* name = std::getenv("TANDEM_TEST_BACKEND");
  const std::string backend = name == nullptr ? "cpu" : name;
  if (backend == "cpu") return TestBackend::cpu;
  if (backend == "cpu-async") return TestBackend::cpu_async;
  if (backend == "emulated") return TestBackend::emulated;
  if (backend == "cuda") return TestBackend::cuda;
  throw std::runtime_error("TANDEM_TEST_BACKEND is " + backend + ": use cpu, cpu-async, emulated or cuda");
}

inline bool tests_asynchronous() { return test_backend() == TestBackend::cpu_async; }

/// `synchronous`, or queues over it that are delayed by a seed, another one for every backend.
inline std::unique_ptr<exec::Backend> under_test(std::unique_ptr<exec::Backend> synchronous, Rank rank = Rank(0)) {
  static std::atomic<std::uint64_t> made = 0;
  if (!tests_asynchronous()) return synchronous;
  return exec::make_async_backend(std::move(synchronous), delays(made++, rank));
}

/// The kernels that are tested: the CPU's, those of CUDA emulated on the host, or those of a CUDA device.
inline std::unique_ptr<exec::Backend> kernels_under_test() {
  switch (test_backend()) {
    case TestBackend::emulated: return delegate_missing(make_emulated_backend());
    case TestBackend::cuda: return delegate_missing(exec::make_cuda_backend());
    default: return exec::make_cpu_backend();
  }
}

/// Kernels of the CUDA backend without the CPU's help: on a CUDA device if that is tested, else emulated on the host.
inline std::unique_ptr<exec::Backend> device_kernels() {
  return test_backend() == TestBackend::cuda ? exec::make_cuda_backend() : make_emulated_backend();
}

/// Communicators of the ranks of a run on the tested backend; empty: the run's default.
inline decltype(exec::RunOptions::make_communicators) communicators_under_test() {
  if (test_backend() != TestBackend::cuda) return {};
  return [](exec::World& world) { return exec::make_cuda_communicators(static_cast<int>(world.here().size())); };
}

/// Options of a run on the backend that is tested.
inline exec::RunOptions run_options() {
  exec::RunOptions options;
  options.make_backend = [](Rank rank) { return under_test(kernels_under_test(), rank); };
  options.make_communicators = communicators_under_test();
  return options;
}

/// The same on asynchronous queues that a seed delays, whichever backend is tested.
inline exec::RunOptions delayed_options(std::uint64_t seed) {
  exec::RunOptions options;
  options.make_backend = [seed](Rank rank) { return exec::make_async_backend(exec::make_cpu_backend(), delays(seed, rank)); };
  return options;
}

}  // namespace tandem::tests
