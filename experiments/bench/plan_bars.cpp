// Cases with a plan: the engine without folding, and the closed form in a search.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "experiments/bench/bars.hpp"
#include "models/base/threads.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/engine/simulate_step.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::bench {
namespace {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Layouts, batches and schedules of one model on 64 devices, as a search would ask for them.
std::vector<Plan> search_plans() {
  const Plan base = parse_plan(R"({"model": {"preset": "llama2-13b"},
    "parallel": {"tensor": 8, "pipeline": 2, "data": 4, "overlap_grad_reduce": true},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 1024, "precision": "bf16", "flash_attention": true},
    "cluster": {"preset": "dgx-a100-80gb", "devices": 64}})", "search.json");
  std::vector<Plan> plans;
  for (const int tensor : {1, 2, 4, 8})
    for (const int pipeline : {1, 2, 4, 8})
      for (const int micro : {1, 2, 4})
        for (const int zero : {0, 1})
          for (const bool overlap : {false, true})
            for (const Recompute again : {Recompute::none, Recompute::selective, Recompute::full})
              for (const bool sequence : {false, true})
                for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1})
                  for (const int batch : {256, 512, 1024}) {
                    const int data = 64 / (tensor * pipeline);
                    if (data < 1 || batch % (data * micro) != 0 || (sequence && tensor == 1)) continue;
                    Plan p = base;
                    p.parallel.tensor = tensor, p.parallel.pipeline = pipeline, p.parallel.data = data;
                    p.parallel.zero_stage = zero, p.parallel.overlap_grad_reduce = overlap;
                    p.parallel.sequence_parallel = sequence, p.parallel.schedule = kind;
                    p.training.micro_batch_size = micro, p.training.global_batch_size = batch, p.training.recompute = again;
                    if (again == Recompute::selective) p.training.recompute_modules = {"core_attention"};
                    plans.push_back(std::move(p));
                  }
  return plans;
}

/// Warm, each thread with an object of its own.
void on_two_threads(const std::vector<Plan>& plans, const Topology& topology, const sim::CostModel& cost) {
  constexpr int kThreads = 2, kRounds = 5;
  std::vector<sim::ClosedForm> forms;
  for (int t = 0; t < kThreads; ++t) forms.emplace_back(topology, cost);
  const auto rounds = [&](int t, int n) {
    for (int i = 0; i < n; ++i)
      for (const Plan& plan : plans) forms[static_cast<std::size_t>(t)].quick(plan);
  };
  for (int t = 0; t < kThreads; ++t) rounds(t, 1);
  const auto start = std::chrono::steady_clock::now();
  run_at_once(kThreads, [&](std::size_t t) { rounds(static_cast<int>(t), kRounds); }, [] {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("  warm on two threads: %.0f plans/s\n", static_cast<double>(kThreads * kRounds) * static_cast<double>(plans.size()) / seconds);
}

}  // namespace

int unfolded(const std::string& path) {
  const Plan plan = load_plan(path);
  const TaskGraph graph = lower(plan);
  const auto topology = make_topology(plan.cluster);
  const auto cost = sim::make_cost_model(*topology);
  const Mesh mesh = make_mesh(plan);
  const double before = processor_seconds();
  const sim::SimulatedStep simulated = sim::simulate_step({graph, mesh, *topology, *cost}, {true, {}});
  const double busy = processor_seconds() - before;
  std::printf("  %zu roles, %lld tasks, %lld events: %.2f M tasks/s, %.2f M events/s\n", simulated.roles.size(),
              static_cast<long long>(simulated.tasks), static_cast<long long>(simulated.events),
              static_cast<double>(simulated.tasks) / busy / 1e6, static_cast<double>(simulated.events) / busy / 1e6);
  return 0;
}

int closed_form() {
  using Clock = std::chrono::steady_clock;
  const std::vector<Plan> plans = search_plans();
  const auto topology = make_topology(plans.front().cluster);
  const auto cost = sim::make_cost_model(*topology);
  sim::ClosedForm form(*topology, *cost);
  double sum = 0;
  std::size_t inside = 0;
  for (const char* caches : {"cold", "warm"}) {
    inside = 0;
    std::vector<double> microseconds;
    const auto start = Clock::now();
    for (const Plan& plan : plans) {
      const auto before = Clock::now();
      const sim::Estimate e = form.quick(plan);
      sum += e.step_time.seconds();
      inside += e.outside == sim::Outside::nothing ? 1 : 0;
      microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::sort(microseconds.begin(), microseconds.end());
    std::printf("  %s: %zu plans, median %.1f us, nine in ten under %.1f us, worst %.0f us; %.0f plans/s a core\n", caches, plans.size(),
                microseconds[plans.size() / 2], microseconds[plans.size() * 9 / 10], microseconds.back(),
                static_cast<double>(plans.size()) / seconds);
  }
  std::printf("  recurrences cover %.1f %% of them\n", 100 * static_cast<double>(inside) / static_cast<double>(plans.size()));
  on_two_threads(plans, *topology, *cost);
  return sum > 0 ? 0 : 1;
}

}  // namespace tandem::bench
