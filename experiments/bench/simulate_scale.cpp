// Speed of the simulator on plans, one core: bench_simulate PLAN...
// Reports wall seconds of each part; for the simulation also processor seconds (the measure
// on a busy machine), tasks and events per second; and the process' peak resident memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

namespace {

using namespace tandem;

/// Seconds since the last call.
double lap() {
  static auto last = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - last;
  last = now;
  return passed.count();
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(const char* path) {
  lap();
  const Plan plan = load_plan(path);
  const TaskGraph graph = lower(plan);
  const double lowering = lap();
  const auto topology = make_topology(plan.cluster);
  const double placing = lap();
  const double before = processor_seconds();
  const Prediction prediction = sim::simulate(plan, graph, *topology);
  const double simulating = lap(), busy = processor_seconds() - before;

  const Mesh mesh = make_mesh(plan);
  const auto cost = sim::make_cost_model(*topology);
  lap();
  const sim::SimulatedStep simulated = sim::simulate_step({graph, mesh, *topology, *cost});
  const double playing = lap();
  std::printf("%s\n  step %.6f s, %lld ranks in %zu roles, %lld tasks, %lld events\n", path, prediction.step_time.seconds(),
              static_cast<long long>(prediction.ranks), simulated.roles.size(), static_cast<long long>(simulated.tasks),
              static_cast<long long>(simulated.events));
  std::printf("  lower %.3f s, topology %.3f s, simulate %.3f s wall, %.3f s processor (play again %.3f s wall)\n",
              lowering, placing, simulating, busy, playing);
  std::printf("  %.2f M tasks/s, %.2f M events/s, peak %.0f MB\n", static_cast<double>(simulated.tasks) / busy / 1e6,
              static_cast<double>(simulated.events) / busy / 1e6, peak_megabytes());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) measure(argv[i]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return argc > 1 ? 0 : 2;
}
