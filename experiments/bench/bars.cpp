// All bars of speed and memory, each in its own process: bench_bars TANDEM PLANS BENCH_PLANS. Reports wall seconds, processor
// seconds and peak resident memory, as the kernel counts them (wait4). Other work on the machine affects mainly the wall seconds.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "experiments/bench/bars.hpp"

namespace {

using namespace tandem::bench;

struct Spent {
  double seconds = 0, processor = 0, megabytes = 0;
  bool ok = false;
};

/// Runs `work` in a child process; its exit status tells success.
Spent in_child(const std::function<int()>& work) {
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int status = work();
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return {passed.count(), of(usage.ru_utime) + of(usage.ru_stime), static_cast<double>(usage.ru_maxrss) / 1024,
          WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

void row(const char* what, const char* bar, const std::function<int()>& work, int times = 1) {
  Spent best = in_child(work);
  for (int i = 1; i < times; ++i)
    if (const Spent again = in_child(work); again.seconds < best.seconds) best = again;
  if (best.ok) std::printf("%-58s %8.3f s, processor %8.3f s, %4.0f MB   bar %s\n", what, best.seconds, best.processor, best.megabytes, bar);
  else std::printf("%-58s failed   bar %s\n", what, bar);
}

/// Runs `tandem simulate PLAN` without output.
int simulate(const char* tandem, const std::string& plan) {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  execl(tandem, tandem, "simulate", plan.c_str(), "--allow-oversize", static_cast<char*>(nullptr));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_bars TANDEM PLANS BENCH_PLANS\n");
    return 2;
  }
  const std::string plans = argv[2], own = argv[3];
  std::printf("whole processes, the fastest of five\n");
  row("175B on 1,024 A100", "0.05 s", [&] { return simulate(argv[1], plans + "/gpt3-175b-1024.json"); }, 5);
  row("1T on 3,072 A100", "0.5 s", [&] { return simulate(argv[1], plans + "/megatron-1t-3072.json"); }, 5);
  row("405B on 16,384 H100", "1 s", [&] { return simulate(argv[1], own + "/llama3-405b-16384.json"); }, 5);
  row("405B on 131,072 H100", "1 s", [&] { return simulate(argv[1], own + "/llama3-405b-131072.json"); }, 5);
  row("405B on 1,048,576 H100", "5 s, 1000 MB", [&] { return simulate(argv[1], own + "/llama3-405b-1048576.json"); }, 5);
  std::printf("the engine\n");
  row("contended plan on 4,096 devices, every rank its own role", "5 s, 1000 MB", [&] { return unfolded(own + "/contended-4096.json"); });
  row("1 GiB ring all-reduce message by message, 1,024 devices", "0.5 s, 50 MB", [] { return ring(1024); });
  row("1 GiB ring all-reduce message by message, 4,096 devices", "10 s, 200 MB", [] { return ring(4096); });
  row("16,256 desynchronised flows", "1 s", [] { return desynchronised(); });
  std::printf("the closed form\n");
  row("9,072 and 1,344 plans of searches, twelve times", "20 us median at 16 stages, 60,000 plans/s on two threads", [] { return closed_form(); });
  std::printf("beside other simulators: make bench-peers\n");
  return 0;
}
