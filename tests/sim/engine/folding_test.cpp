#include <random>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/random_step.hpp"
#include "tests/sim/engine/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// Equal stages whose forward passes take 10 ns and backward passes 20 ns.
TaskGraph pipeline(int stages, int micro_batches) {
  return pipeline_graph(equal_stages(stages, micro_batches, Duration::nanoseconds(10), Duration::nanoseconds(20)));
}

FakeTopology of_devices(std::int64_t n) {
  Shape shape;
  shape.devices = n;
  return FakeTopology(shape);
}

}  // namespace

TEST_CASE("folded and unfolded simulations agree on every task of every rank, bit for bit") {
  std::mt19937 random(2026);
  std::size_t folded_roles = 0, ranks = 0;
  std::int64_t events = 0;
  for (int i = 0; i < 250; ++i) {
    const Layout l = random_layout(random);
    const TaskGraph graph = RandomStep(random, static_cast<std::int32_t>(l.pp)).build();
    const Mesh m = mesh(l.tp, l.dp, l.pp);
    const FakeTopology topology(random_shape(random, m.world_size()));
    FakeCost cost;
    cost.host_launch = Duration::nanoseconds(static_cast<std::int64_t>(random() % 500));
    cost.slowdowns = {1.0, random() % 2 == 0 ? 1.0 : 1.25};
    const Setup setup{graph, m, topology, cost};
    const SimulatedStep folded = simulate_step(setup), whole = simulate_step(setup, {true, {}});
    REQUIRE(whole.roles.size() == static_cast<std::size_t>(m.world_size()));
    require_equal(folded, whole, graph);
    folded_roles += folded.roles.size();
    ranks += whole.roles.size();
    events += folded.events;
  }
  // The comparison means something only if ranks were folded and flows contended.
  CHECK(folded_roles < ranks / 2);
  CHECK(events > 1000);
}

TEST_CASE("a symmetric machine has one role a stage") {
  const TaskGraph graph = pipeline(4, 8);
  const FakeTopology topology = of_devices(64);
  const FakeCost cost;
  const Mesh m = mesh(4, 4, 4);
  const SimulatedStep simulated = sim::simulate_step({graph, m, topology, cost});
  REQUIRE(simulated.roles.size() == 4);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(simulated.roles[r].ranks.size() == 16);
    CHECK(simulated.roles[r].stage == StageId(static_cast<std::int32_t>(r)));
  }
}

TEST_CASE("a slower link splits the roles that its ranks' communication reaches") {
  const TaskGraph graph = pipeline(2, 4);
  FakeTopology topology = of_devices(8);
  topology.edit_links()[0].latency = Duration::nanoseconds(7);
  const FakeCost cost;
  const Mesh m = mesh(1, 4, 2);
  const SimulatedStep simulated = sim::simulate_step({graph, m, topology, cost});
  // Data rank 0 of both stages stands apart from data ranks 1 to 3.
  REQUIRE(simulated.roles.size() == 4);
  CHECK(simulated.roles[0].ranks == std::vector<std::int32_t>{0});
  CHECK(simulated.roles[1].ranks == std::vector<std::int32_t>{1, 2, 3});
}

TEST_CASE("a marked rank has a role of its own, and so have its neighbours") {
  const TaskGraph graph = pipeline(2, 4);
  const FakeTopology topology = of_devices(8);
  const FakeCost cost;
  const Mesh m = mesh(1, 4, 2);
  Options options;
  options.marks.assign(8, 0);
  options.marks[2] = 1;
  const SimulatedStep simulated = sim::simulate_step({graph, m, topology, cost}, options);
  REQUIRE(simulated.roles.size() == 4);
  CHECK(simulated.roles[1].ranks == std::vector<std::int32_t>{2});
  CHECK(simulated.roles[3].ranks == std::vector<std::int32_t>{6});
}

TEST_CASE("two simulations of one step are equal in every time of every task") {
  std::mt19937 random(9);
  for (int i = 0; i < 20; ++i) {
    const TaskGraph graph = RandomStep(random, 3).build();
    const Mesh m = mesh(2, 2, 3);
    const FakeTopology topology(random_shape(random, 12));
    const FakeCost cost;
    const SimulatedStep a = simulate_step({graph, m, topology, cost}), b = simulate_step({graph, m, topology, cost});
    REQUIRE(a.events == b.events);
    for (std::size_t r = 0; r < a.records.size(); ++r) REQUIRE(times_of(a, graph, r) == times_of(b, graph, r));
  }
}

TEST_CASE("rings of all tensor ranks through one shared link take as many times longer") {
  // Two devices a node; the ring over data crosses one trunk for both tensor ranks.
  const std::int64_t tp = GENERATE(1, 2, 4);
  GraphBuilder graph(1);
  graph.add(0, graph.one("reduce", Stream::data,
                         Collective{CollectiveKind::all_reduce, Group::data, 2 * 16384, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();

  class Trunk : public FakeTopology {
   public:
    using FakeTopology::FakeTopology;
    std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override {
      return {from.value() < to.value() ? 0 : 1};
    }
  };
  Shape shape;
  shape.devices = 2 * tp;
  const Trunk topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(tp, 2, 1);
  const SimulatedStep simulated = sim::simulate_step({g, m, topology, cost});
  // 2 steps of 65536 bytes for each of tp rings.
  CHECK(simulated.roles.size() == 1);
  CHECK(std::abs(simulated.step_time.ps() - std::llround(static_cast<double>(tp) * 2 * 65536 / 50e9 * 1e12)) <= 2);
  CHECK(simulated.events == 0);
}
