// Stragglers, slow links and jitter, against what can be worked out by hand and against the unfolded simulation.

#include "sim/result/perturbation_cost.hpp"

#include "sim/engine/jitter.hpp"
#include "sim/engine/simulate_step.hpp"
#include "tests/sim/engine/random_step.hpp"
#include "tests/sim/engine/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

Shape devices(std::int64_t count) {
  Shape shape;
  shape.devices = count;
  return shape;
}

Perturbation straggler(std::int64_t rank, double factor) {
  Perturbation p;
  p.slow_devices.push_back({rank, -1, -1, factor});
  return p;
}

Perturbation slow_link(const std::string& link, double factor) {
  Perturbation p;
  p.slow_links.push_back({link, factor});
  return p;
}

struct Machine {
  Mesh mesh;
  FakeTopology plain;
  FakeCost cost;

  Duration step(const TaskGraph& graph) const { return simulate_step({graph, mesh, plain, cost}).step_time; }
  Duration step(const TaskGraph& graph, const Perturbation& p) const {
    const auto topology = perturbed(plain, p);
    return simulate_step({graph, mesh, *topology, cost}).step_time;
  }
};

/// Two computations, then a sum over all data ranks.
TaskGraph data_parallel(Duration first, Duration second, std::int64_t elements) {
  GraphBuilder graph(1);
  graph.add(0, graph.one("first", Stream::compute, work(first)));
  const std::uint32_t c = graph.add(0, graph.one("second", Stream::compute, work(second)));
  const Op sum = Collective{CollectiveKind::all_reduce, Group::data, elements, DType::fp32, Reduce::sum};
  graph.edge(0, c, graph.add(0, graph.one("reduce", Stream::data, sum)));
  return graph.take();
}

/// Some devices and links of a fake machine, slow by a random share.
Perturbation random_perturbation(std::mt19937& random, const FakeTopology& topology, std::int64_t ranks) {
  constexpr double factors[] = {0.5, 0.8, 0.9, 0.99};
  Perturbation p;
  const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  for (std::int64_t n = below(3); n >= 0; --n)
    p.slow_devices.push_back({below(static_cast<std::size_t>(ranks)), -1, -1, factors[random() % 4]});
  for (std::int64_t n = below(3); n > 0; --n)
    p.slow_links.push_back({"link" + std::to_string(below(static_cast<std::size_t>(topology.link_count()))), factors[random() % 4]});
  return p;
}

Options with_jitter(double relative, std::uint64_t seed) {
  Options options;
  options.jitter = Jitter{relative, seed, 1};
  return options;
}

}  // namespace

TEST_CASE("a straggler lengthens pure data parallelism by exactly its own excess") {
  const Duration first = Duration::nanoseconds(1000), second = Duration::nanoseconds(3000);
  const TaskGraph graph = data_parallel(first, second, 4096);
  const Machine machine{mesh(1, 4, 1), FakeTopology(devices(4)), {}};
  const Duration plain = machine.step(graph);
  for (const std::int64_t rank : {0, 1, 3}) {
    CHECK(machine.step(graph, straggler(rank, 0.8)) - plain == Duration::nanoseconds(1000));
    CHECK(machine.step(graph, straggler(rank, 0.5)) - plain == first + second);
    CHECK(machine.step(graph, straggler(rank, 1)) == plain);
  }
}

TEST_CASE("stragglers named twice are slow by both factors, and only the slowest counts where all wait") {
  const TaskGraph graph = data_parallel(Duration::nanoseconds(1000), {}, 4096);
  const Machine machine{mesh(1, 4, 1), FakeTopology(devices(4)), {}};
  Perturbation p = straggler(2, 0.5);
  p.slow_devices.push_back({-1, 0, 2, 0.5});
  p.slow_devices.push_back({1, -1, -1, 0.8});
  CHECK(machine.step(graph, p) - machine.step(graph) == Duration::nanoseconds(3000));
}

TEST_CASE("a straggler in a pipeline's last stage sets the pace of all micro-batches") {
  const int p = GENERATE(2, 4, 8);
  const int m = p * GENERATE(1, 2, 3);
  const bool all_forwards_first = GENERATE(false, true);
  const Duration forward = Duration::nanoseconds(40), backward = Duration::nanoseconds(80);
  PipelineCase pipeline = equal_stages(p, m, forward, backward);
  pipeline.gpipe = all_forwards_first;
  const TaskGraph graph = pipeline_graph(pipeline);
  const Machine machine{mesh(1, 1, p), FakeTopology(devices(p)), {}};
  CHECK(machine.step(graph) == (m + p - 1) * (forward + backward));
  // The other stages fill and drain at their own pace; the last one does its m passes without a gap, each 1 / 0.8 as long.
  CHECK(machine.step(graph, straggler(p - 1, 0.8)) == (p - 1) * (forward + backward) + m * Duration::nanoseconds(150));
}

TEST_CASE("a link at half its bandwidth doubles the transfer of a ring that has it to itself") {
  const TaskGraph graph = data_parallel({}, {}, 1 << 20);
  const Machine machine{mesh(1, 4, 1), FakeTopology(devices(4)), {}};
  const Duration plain = machine.step(graph);
  const char* link = GENERATE("link0", "link6");  // out of device 0, into device 2
  CHECK(std::abs((machine.step(graph, slow_link(link, 0.5)) - 2 * plain).ps()) <= 2);
  CHECK(std::abs((machine.step(graph, slow_link("link*", 0.25)) - 4 * plain).ps()) <= 4);
}

TEST_CASE("a slow link beside the ring of another group costs nothing") {
  const TaskGraph graph = data_parallel({}, {}, 1 << 20);
  // Two pipelines' worth of devices, of which the plan uses the first four.
  const Machine machine{mesh(1, 4, 1), FakeTopology(devices(8)), {}};
  CHECK(machine.step(graph, slow_link("link5", 0.1)) == machine.step(graph));
}

TEST_CASE("only what a straggler sets apart is expanded") {
  const TaskGraph graph = pipeline_graph(equal_stages(2, 4, Duration::nanoseconds(10), Duration::nanoseconds(20)));
  const FakeTopology plain(devices(128));
  const auto topology = perturbed(plain, straggler(5, 0.8));
  const Mesh m = mesh(1, 64, 2);
  const FakeCost cost;
  const SimulatedStep simulated = sim::simulate_step({graph, m, *topology, cost});
  // Data rank 5 of both stages, and the other 63 of both.
  REQUIRE(simulated.roles.size() == 4);
  CHECK(simulated.roles[1].ranks == std::vector<std::int32_t>{5});
  CHECK(simulated.roles[0].ranks.size() == 63);
}

TEST_CASE("stragglers and slow links folded with exceptions and unfolded agree on every task, bit for bit") {
  std::mt19937 random(77);
  std::size_t folded_roles = 0, ranks = 0, slower = 0;
  for (int i = 0; i < 250; ++i) {
    const Layout l = random_layout(random);
    const TaskGraph graph = RandomStep(random, static_cast<std::int32_t>(l.pp)).build();
    const Mesh m = mesh(l.tp, l.dp, l.pp);
    const FakeTopology plain(random_shape(random, m.world_size()));
    const auto topology = perturbed(plain, random_perturbation(random, plain, m.world_size()));
    FakeCost cost;
    cost.host_launch = Duration::nanoseconds(static_cast<std::int64_t>(random() % 500));
    cost.slowdowns = {1.0, random() % 2 == 0 ? 1.0 : 1.25};
    const Setup setup{graph, m, *topology, cost};
    const SimulatedStep folded = simulate_step(setup), whole = simulate_step(setup, {true, {}});
    require_equal(folded, whole, graph);
    folded_roles += folded.roles.size();
    ranks += whole.roles.size();
    slower += folded.step_time > simulate_step({graph, m, plain, cost}).step_time;
  }
  CHECK(folded_roles < ranks);
  CHECK(slower > 150);
}

TEST_CASE("factors of a jitter have mean 1 and the standard deviation that was asked for") {
  for (const double relative : {0.02, 0.2}) {
    double sum = 0, squares = 0;
    const JitterFactors factors({relative, 7, 1});
    constexpr int kDraws = 200'000;
    for (int i = 0; i < kDraws; ++i) {
      const double f = factors.of(i % 64, static_cast<std::uint32_t>(i / 64));
      REQUIRE(f > 0);
      sum += f;
      squares += (f - 1) * (f - 1);
    }
    // Five standard errors of the mean; of the deviation about as many.
    CHECK(std::abs(sum / kDraws - 1) < 5 * relative / std::sqrt(kDraws));
    CHECK(std::sqrt(squares / kDraws) == Approx(relative).epsilon(0.02));
  }
}

TEST_CASE("a jittered computation takes its factor times its time") {
  GraphBuilder builder(1);
  const Duration each = Duration::nanoseconds(500);
  for (int i = 0; i < 5; ++i) builder.add(0, builder.one("work", Stream::compute, work(each)));
  const TaskGraph graph = builder.take();
  const Mesh m = mesh(1, 2, 1);
  const FakeTopology topology(devices(2));
  const FakeCost cost;
  const Options options = with_jitter(0.1, 3);
  const SimulatedStep simulated = sim::simulate_step({graph, m, topology, cost}, options);
  REQUIRE(simulated.roles.size() == 2);
  const JitterFactors factors(*options.jitter);
  for (std::int32_t r = 0; r < 2; ++r) {
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i < 5; ++i)
      sum += each.ps() + std::llround(static_cast<double>(each.ps()) * (factors.of(r, i) - 1));
    CHECK(simulated.records[static_cast<std::size_t>(r)].end.ps() == sum);
  }
}

TEST_CASE("jitter is a function of its seed, and waiting for others makes it cost time") {
  const TaskGraph graph = data_parallel(Duration::nanoseconds(1000), Duration::nanoseconds(3000), 4096);
  const FakeTopology topology(devices(32));
  const Mesh m = mesh(1, 32, 1);
  const FakeCost cost;
  const Setup setup{graph, m, topology, cost};
  const SimulatedStep a = simulate_step(setup, with_jitter(0.05, 1)), b = simulate_step(setup, with_jitter(0.05, 1)),
                      c = simulate_step(setup, with_jitter(0.05, 2));
  for (std::size_t r = 0; r < a.roles.size(); ++r) REQUIRE(times_of(a, graph, r) == times_of(b, graph, r));
  CHECK(a.step_time != c.step_time);
  // The slowest of 32 is later than the mean with either seed.
  CHECK(a.step_time > simulate_step(setup).step_time);
  CHECK(c.step_time > simulate_step(setup).step_time);
}

TEST_CASE("ten seeds of a jitter take the same times on one thread and on several, bit for bit", "[tsan]") {
  std::mt19937 random(5);
  for (int i = 0; i < 10; ++i) {
    const Layout l = random_layout(random);
    const TaskGraph graph = RandomStep(random, static_cast<std::int32_t>(l.pp)).build();
    const Mesh m = mesh(l.tp, l.dp, l.pp);
    const FakeTopology topology(devices(m.world_size()));
    const FakeCost cost;
    const Setup setup{graph, m, topology, cost};
    Options options = with_jitter(0.05, 1);
    options.jitter->seeds = 10;
    const auto spread = [&](int at_once) {
      SimulatedStep simulated = simulate_step(setup, options);
      std::vector<std::string> told;
      const StepSpread s = spread_over_seeds({setup, options, simulated.step_time, simulated}, at_once,
                                             [&](const std::string& what) { told.push_back(what); });
      CHECK(told.size() == 9);
      CHECK(told.back() == "seed 10 of 10");
      return std::array{s.mean_s, s.deviation_s, s.low_s, s.high_s};
    };
    const auto alone = spread(1);
    CHECK(alone[2] < alone[3]);
    for (const int at_once : {2, 4}) CHECK(spread(at_once) == alone);
    // Each as by itself.
    double low = INFINITY, high = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const double s = simulate_step(setup, with_jitter(0.05, seed)).step_time.seconds();
      low = std::min(low, s), high = std::max(high, s);
    }
    CHECK(low == alone[2]);
    CHECK(high == alone[3]);
  }
}

TEST_CASE("jitter where ranks share a processor is refused") {
  const TaskGraph graph = data_parallel(Duration::nanoseconds(1000), {}, 4096);
  Shape shape = devices(2);
  shape.ranks_per_device = 2;
  const FakeTopology topology(shape);
  const Mesh m = mesh(1, 4, 1);
  const FakeCost cost;
  CHECK_THROWS_AS(simulate_step({graph, m, topology, cost}, with_jitter(0.05, 1)), InfeasibleError);
}
