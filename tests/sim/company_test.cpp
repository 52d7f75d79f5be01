#include "sim/company.hpp"

#include "tests/catch.hpp"
#include "tests/sim/graphs.hpp"

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

Play run(const TaskGraph& graph, double slowdown) {
  Shape shape;
  shape.devices = 2;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.measured = us(30);
  cost.fit.compute_slowdown = slowdown;
  return play({graph, mesh(1, 2, 1), topology, cost}, {});
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
  const auto delays = delays_in_company(run(graph, 0), graph, 1, Bandwidth::bytes_per_second(1e11));
  REQUIRE(delays.size() == 1);
  std::vector<std::int64_t> of_tasks;
  for (std::uint32_t i = 0; i < graph.programs[0].instances.size(); ++i)
    for (std::uint16_t t = 0; t < graph.of(graph.programs[0].instances[i]).tasks.size(); ++t)
      of_tasks.push_back(delays[0].of(i, t));
  CHECK(of_tasks == std::vector<std::int64_t>{0, 0, us(10).ps(), us(5).ps(), 0});
}
