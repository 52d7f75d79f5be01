// Cases with a plan: the engine without folding, and the closed form in a search.
#include <algorithm>
#include <array>
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

/// GPT-3 175B on 128 devices in 16 stages, with and without chunks.
std::vector<Plan> deep_plans() {
  const Plan base = parse_plan(R"({"model": {"preset": "gpt3-175b"}, "parallel": {"tensor": 8, "pipeline": 16, "data": 1},
    "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 1536, "precision": "bf16", "flash_attention": true},
    "cluster": {"preset": "dgx-a100-80gb", "devices": 128}})", "deep.json");
  std::vector<Plan> plans{base};
  const auto vary = [&](auto values, const auto& set) {
    std::vector<Plan> varied;
    for (const Plan& plan : plans)
      for (const auto value : values) set(varied.emplace_back(plan), value);
    plans = std::move(varied);
  };
  vary(std::array{1, 2, 4, 8}, [](Plan& p, int tensor) { p.parallel.tensor = tensor, p.parallel.data = 8 / tensor; });
  vary(std::array{1, 2, 4}, [](Plan& p, int micro) { p.training.micro_batch_size = micro; });
  vary(std::array{0, 1}, [](Plan& p, int zero) { p.parallel.zero_stage = zero; });
  vary(std::array{false, true},
       [](Plan& p, bool overlap) { p.parallel.overlap_grad_reduce = p.parallel.overlap_param_gather = overlap; });
  vary(std::array{Recompute::none, Recompute::full}, [](Plan& p, Recompute again) { p.training.recompute = again; });
  vary(std::array{false, true}, [](Plan& p, bool sequence) { p.parallel.sequence_parallel = sequence; });
  vary(std::array{false, true}, [](Plan& p, bool offload) { p.parallel.offload.optimizer = offload; });
  vary(std::array{1, 2, 3, 6}, [](Plan& p, int chunks) {
    p.parallel.virtual_pipeline = chunks;
    p.parallel.schedule = chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  });
  std::erase_if(plans, [](const Plan& p) { return p.parallel.sequence_parallel && p.parallel.tensor == 1; });
  return plans;
}

double thread_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// With warm caches and one object per thread.
void on_two_threads(const std::vector<Plan>& plans, const Topology& topology, const sim::CostModel& cost) {
  constexpr int kThreads = 2, kRounds = 5;
  std::vector<sim::ClosedForm> forms;
  for (int t = 0; t < kThreads; ++t) forms.emplace_back(topology, cost);
  std::vector<double> busy(kThreads);
  const auto rounds = [&](std::size_t t, int n) {
    const double before = thread_microseconds();
    for (int i = 0; i < n; ++i)
      for (const Plan& plan : plans) forms[t].quick(plan);
    busy[t] = thread_microseconds() - before;
  };
  for (std::size_t t = 0; t < kThreads; ++t) rounds(t, 1);
  const auto start = std::chrono::steady_clock::now();
  run_at_once(kThreads, [&](std::size_t t) { rounds(t, kRounds); }, [] {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double each = static_cast<double>(kRounds) * static_cast<double>(plans.size());
  double rate = 0;
  for (const double us : busy) rate += each / us * 1e6;
  std::printf("  warm on two threads: %.0f plans/s, %.0f if both have a core\n", kThreads * each / seconds, rate);
}

/// Prints the processor time of each plan's estimate, cold and warm.
double estimates(const char* what, const std::vector<Plan>& plans) {
  const auto topology = make_topology(plans.front().cluster);
  const auto cost = sim::make_cost_model(*topology);
  sim::ClosedForm form(*topology, *cost);
  double sum = 0;
  std::size_t inside = 0;
  std::printf("  %s: %zu plans\n", what, plans.size());
  for (const char* caches : {"cold", "warm"}) {
    inside = 0;
    std::vector<double> microseconds;
    const double start = thread_microseconds();
    for (const Plan& plan : plans) {
      const double before = thread_microseconds();
      const sim::Estimate e = form.quick(plan);
      sum += e.step_time.seconds();
      inside += e.outside == sim::Outside::nothing ? 1 : 0;
      microseconds.push_back(thread_microseconds() - before);
    }
    const double seconds = (thread_microseconds() - start) * 1e-6;
    std::sort(microseconds.begin(), microseconds.end());
    std::printf("  %s: median %.1f us, nine in ten under %.1f us, worst %.0f us; %.0f plans/s a core\n", caches,
                microseconds[plans.size() / 2], microseconds[plans.size() * 9 / 10], microseconds.back(),
                static_cast<double>(plans.size()) / seconds);
  }
  std::printf("  recurrences cover %.1f %% of them\n", 100 * static_cast<double>(inside) / static_cast<double>(plans.size()));
  on_two_threads(plans, *topology, *cost);
  return sum;
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
  const double sum = estimates("LLaMA-2 13B, up to 8 stages", search_plans()) + estimates("GPT-3 175B, 16 stages", deep_plans());
  return sum > 0 ? 0 : 1;
}

}  // namespace tandem::bench
