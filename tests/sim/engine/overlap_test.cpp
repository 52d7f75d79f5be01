#include "sim/engine/overlap.hpp"

#include <cmath>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/sim/engine/random_plans.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

Duration us(std::int64_t n) { return Duration::nanoseconds(1000 * n); }

/// An all-reduce for which the fake device's memory, of 100 GB/s, is touched for 15 us: six times four bytes an element.
constexpr std::int64_t kElements = 62500;

Collective reduce(bool chunked, std::int64_t elements = kElements) {
  return {CollectiveKind::all_reduce, Group::data, elements, DType::fp32, Reduce::sum, 0, chunked};
}

/// Work of 10 us, then an all-reduce that takes 30 us beside three more works of 20 us.
TaskGraph beside(bool chunked, std::int64_t elements = kElements) {
  GraphBuilder graph(1);
  const TemplateId lead = graph.one("lead", Stream::compute, work(us(10)));
  const TemplateId sum = graph.one("sum", Stream::data, reduce(chunked, elements));
  const TemplateId rest = graph.one("rest", Stream::compute, work(us(20)));
  const std::uint32_t first = graph.add(0, lead);
  graph.edge(0, first, graph.add(0, sum));
  for (int i = 0; i < 3; ++i) graph.add(0, rest);
  return graph.take();
}

SimulatedStep run(const TaskGraph& graph, double slowdown) {
  Shape shape;
  shape.devices = 2;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.measured = us(30);
  cost.fit.compute_slowdown = slowdown;
  return simulate_step({graph, mesh(1, 2, 1), topology, cost}, {});
}

/// A computation takes as many picoseconds as its operands have bytes.
class TrafficCost : public FakeCost {
 public:
  Duration duration(const Op& op, DType compute) const override { return Duration::picoseconds(traffic(op, compute).count()); }
};

/// Every computation of a role held against every collective of it.
std::vector<std::int64_t> held_one_by_one(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role,
                                          Bandwidth memory) {
  const Reader reader(simulated, role);
  const Program& program = graph.program(simulated.roles[role].stage);
  const auto each = [&](auto&& what) {
    for (std::uint32_t i = 0; i < program.instances.size(); ++i)
      for (std::uint16_t t = 0; t < graph.of(program.instances[i]).tasks.size(); ++t)
        what(graph.of(program.instances[i]).tasks[t], reader.at(i, t));
  };
  std::vector<std::pair<const Collective*, TaskSpan>> collectives;
  each([&](const Task& task, const TaskSpan& h) {
    const auto* c = std::get_if<Collective>(&task.op);
    if (c != nullptr && !c->chunked && h.ended > h.started) collectives.emplace_back(c, h);
  });
  std::vector<std::int64_t> delays;
  each([&](const Task& task, const TaskSpan& h) {
    std::int64_t sum = 0;
    if (task.stream == Stream::compute && !is_communication(task.op))
      for (const auto& [c, at] : collectives)
        if (const std::int64_t together = std::min(h.ended, at.ended) - std::max(h.started, at.started); together > 0)
          sum += std::llround(memory_share(*c, at.ended - at.started, memory) * static_cast<double>(together));
    delays.push_back(sum);
  });
  return delays;
}

}  // namespace

TEST_CASE("computation beside a collective takes longer by the memory's time for what it moves meanwhile") {
  CHECK(run(beside(false), 0).step_time == us(70));
  // Together for all of its 30 us: beside the first work, and half of the second.
  CHECK(run(beside(false), 1).step_time == us(85));
  CHECK(run(beside(false), 2).step_time == us(100));
  // The same time for half of the bytes: a slower network.
  CHECK(run(beside(false, kElements / 2), 2).step_time == us(85));
}

TEST_CASE("what runs in pieces beside its product has its price there") {
  CHECK(run(beside(true), 1).step_time == us(70));
}

TEST_CASE("delays are those of the tasks that had company") {
  const TaskGraph graph = beside(false);
  const auto delays = overlap_delays(run(graph, 0), graph, 1, Bandwidth::bytes_per_second(1e11));
  REQUIRE(delays.size() == 1);
  std::vector<std::int64_t> of_tasks;
  for (std::uint32_t i = 0; i < graph.programs[0].instances.size(); ++i)
    for (std::uint16_t t = 0; t < graph.of(graph.programs[0].instances[i]).tasks.size(); ++t)
      of_tasks.push_back(delays[0].of(i, t));
  CHECK(of_tasks == std::vector<std::int64_t>{0, 0, us(10).ps(), us(5).ps(), 0});
}

TEST_CASE("delays of random plans are those of every computation held against every collective") {
  const Bandwidth memory = Bandwidth::bytes_per_second(1e11);
  PlanGenerator plans(19, 16);
  int with_delays = 0, without = 0;
  for (int i = 0; i < 60; ++i) {
    const RandomPlan r = plans.next();
    INFO(to_json(r.plan, -1));
    const Mesh m = make_mesh(r.plan);
    TrafficCost cost;
    cost.host_launch = Duration::nanoseconds(i % 3 * 1000);
    const SimulatedStep whole = simulate_step({r.graph, m, *r.topology, cost}, {});
    const auto delays = overlap_delays(whole, r.graph, 1, memory);
    (delays.empty() ? without : with_delays) += 1;
    for (std::size_t role = 0; role < whole.roles.size(); ++role) {
      const auto expected = held_one_by_one(whole, r.graph, role, memory);
      const LaneProgram& lane_program = whole.lane_program(role);
      for (std::uint32_t at = 0; at < expected.size(); ++at) {
        const Place place = place_of(lane_program, at);
        REQUIRE((delays.empty() ? 0 : delays[role].of(place.instance, place.task)) == expected[at]);
      }
    }
  }
  CHECK(with_delays > 20);
  CHECK(without > 2);
}
