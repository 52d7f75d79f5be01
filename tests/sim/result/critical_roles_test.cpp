// What a summary asks of all roles, against the breakdown of each.

#include "sim/result/critical_roles.hpp"

#include <algorithm>
#include <random>

#include "sim/engine/simulate_step.hpp"
#include "sim/result/breakdown.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;
using namespace tandem::tests;

namespace {

/// An operation takes as long as its bytes.
class ByteCost : public FakeCost {
 public:
  Duration duration(const Op& op, DType compute) const override { return Duration::picoseconds(3 * traffic(op, compute).count()); }
};

PipelineCase random_pipeline(std::mt19937& random) {
  PipelineCase c;
  c.stages = static_cast<int>(2 + random() % 6);
  c.micro_batches = static_cast<int>(4 + random() % 12);
  c.gpipe = random() % 3 == 0;
  c.buffers = 1;
  for (int s = 0; s < c.stages; ++s) {
    c.forward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 10'000)));
    c.backward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 30'000)));
  }
  return c;
}

/// None, or one of a random seed.
Options maybe_jitter(std::mt19937& random) {
  Options options;
  if (random() % 2 == 0) options.jitter = Jitter{0.2, random() % 100, 1};
  return options;
}

void require_shares(const SimulatedStep& simulated, const TaskGraph& graph) {
  const std::vector<std::int64_t> computing = computing_time(simulated, graph);
  const std::vector<Breakdown> breakdowns = break_down(simulated, graph);
  for (std::size_t r = 0; r < breakdowns.size(); ++r)
    REQUIRE(computing[r] == breakdowns[r][Share::compute] + breakdowns[r][Share::optimizer]);
}

}  // namespace

TEST_CASE("computing time is the share of computation and optimizer in every role's breakdown") {
  std::mt19937 random(31);
  std::size_t with_pattern = 0, without = 0;
  for (int i = 0; i < 60; ++i) {
    SmallPlan small;
    small.tensor = 1 << random() % 2;
    small.pipeline = 1 << random() % 3;
    small.data = 2;
    small.micro_batches = 4;
    const Plan plan = small.plan();
    const TaskGraph graph = lower(plan);
    const Mesh m = make_mesh(plan);
    Shape shape;
    shape.devices = m.world_size();
    shape.synchronous = random() % 3 == 0;
    const FakeTopology topology(shape);
    ByteCost cost;
    cost.host_launch = Duration::nanoseconds(random() % 3000);
    cost.fit.compute_slowdown = random() % 2 == 0 ? 0 : 300;
    const SimulatedStep simulated = simulate_step({graph, m, topology, cost}, maybe_jitter(random));
    require_shares(simulated, graph);
    for (const InstanceRecord& p : simulated.times.instances) (p.has_pattern() ? with_pattern : without) += 1;
  }
  CHECK(with_pattern > 500);
  CHECK(without > 1000);
}

TEST_CASE("every role with a credit stall is among those without a buffer, and breaks down alone as among all") {
  std::mt19937 random(32);
  std::size_t stalled = 0, spared = 0;
  for (int i = 0; i < 100; ++i) {
    const PipelineCase pipeline = random_pipeline(random);
    const TaskGraph graph = pipeline_graph(pipeline);
    const Mesh m = mesh(1, 1, pipeline.stages);
    Shape shape;
    shape.devices = pipeline.stages;
    shape.latency = Duration::picoseconds(4'000);
    const FakeTopology topology(shape);
    const FakeCost cost;
    const SimulatedStep simulated = simulate_step({graph, m, topology, cost}, maybe_jitter(random));
    const std::vector<std::size_t> found = roles_without_buffer(simulated, graph);
    const std::vector<Breakdown> all = break_down(simulated, graph), some = break_down(simulated, graph, found);
    for (std::size_t n = 0; n < found.size(); ++n) REQUIRE(some[n].ps == all[found[n]].ps);
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].credit_stall_ps > 0) REQUIRE(std::binary_search(found.begin(), found.end(), r));
    stalled += found.size();
    spared += all.size() - found.size();
  }
  CHECK(stalled > 50);
  CHECK(spared > 50);
}
