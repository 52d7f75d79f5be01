// Instances that go by a pattern, or in runs of tasks, against the same instances walked task by task.

#include <random>

#include "sim/engine/simulate_step.hpp"
#include "sim/result/breakdown.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;
using namespace tandem::tests;

namespace {

/// Every kind of operation takes its own time: so many picoseconds for a byte that it touches.
class TrafficCost : public FakeCost {
 public:
  std::int64_t per_byte = 1;
  Duration duration(const Op& op, DType compute) const override {
    return Duration::picoseconds((per_byte + static_cast<std::int64_t>(op.index()) % 3) * traffic(op, compute).count());
  }
};

Plan random_plan(std::mt19937& random) {
  const auto one_of = [&](auto... options) {
    const std::array list{options...};
    return list[random() % list.size()];
  };
  SmallPlan small;
  small.tensor = one_of(1, 2, 2);
  small.pipeline = one_of(1, 2, 4);
  small.data = one_of(1, 2);
  small.micro_batches = one_of(1, 3, 8);
  small.schedule = small.pipeline == 1 ? "1f1b" : one_of("1f1b", "gpipe", "zb-h1", "zb-h2");
  small.recompute = one_of("none", "selective", "full");
  small.overlap = one_of(true, false);
  small.precision = one_of("fp32", "bf16");
  Plan plan = small.plan();
  plan.parallel.overlap_p2p = one_of(true, false);
  plan.parallel.sequence_parallel = small.tensor > 1 && one_of(true, false);
  return plan;
}

}  // namespace

TEST_CASE("instances that go by a pattern or in runs go as their tasks would one by one") {
  std::mt19937 random(11);
  std::size_t with_pattern = 0, in_runs = 0, singly = 0, instances = 0;
  for (int i = 0; i < 150; ++i) {
    const Plan plan = random_plan(random);
    TaskGraph graph = lower(plan);
    if (random() % 2 == 0)
      for (Template& t : graph.templates)
        for (Task& task : t.tasks) task.host_operations = static_cast<std::uint16_t>(1 + random() % 5);
    const Mesh m = make_mesh(plan);
    const std::int64_t devices = m.world_size(), tensor = plan.parallel.tensor;
    const Shape shape{ScaleUp::crossbar, devices, random() % 2 == 0 ? tensor : devices, 1,
                      Bandwidth::bytes_per_second(random() % 2 == 0 ? 1e9 : 1e11), Duration::nanoseconds(random() % 3000), false};
    const FakeTopology topology(shape);
    TrafficCost cost;
    cost.per_byte = random() % 2 == 0 ? 3 : 200;
    // Launches from none to as much as the work itself: both the device and the host set the pace.
    cost.host_launch = Duration::nanoseconds(random() % 3 == 0 ? 0 : random() % 4000);
    cost.fit.compute_slowdown = random() % 2 == 0 ? 0 : 300;
    const Setup setup{graph, m, topology, cost};
    const SimulatedStep fast = simulate_step(setup);
    Options options;
    options.singly = true;
    const SimulatedStep slow = simulate_step(setup, options);
    REQUIRE(fast.step_time == slow.step_time);
    REQUIRE(fast.delays.size() == slow.delays.size());
    const auto shares = break_down(fast, graph), expected = break_down(slow, graph);
    for (std::size_t r = 0; r < fast.roles.size(); ++r) {
      INFO("plan " << i << " role " << r);
      REQUIRE(times_of(fast, graph, r) == times_of(slow, graph, r));
      REQUIRE(shares[r].ps == expected[r].ps);
      REQUIRE(shares[r].credit_stall_ps == expected[r].credit_stall_ps);
    }
    for (const InstanceRecord& p : fast.times.instances)
      with_pattern += p.has_pattern(), in_runs += p.in_runs(), singly += p.singly();
    for (const InstanceRecord& p : slow.times.instances) REQUIRE(p.singly());
    instances += fast.times.instances.size();
  }
  CHECK(with_pattern > instances / 4);
  CHECK(in_runs > instances / 50);
  CHECK(singly > instances / 50);  // no run could be kept
}
