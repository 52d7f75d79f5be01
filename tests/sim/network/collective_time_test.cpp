#include "models/ops/token_copies.hpp"
#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

constexpr double kBandwidth = 50e9;
const Duration kAlpha = Duration::nanoseconds(500);

struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t ranks = 2, bytes = 1 << 20;
  Shape shape;
  TokenCopies copies = {};
};

/// A step that is one collective over all ranks of a tensor group.
Duration time(const CollectiveCase& c, bool unfolded = false) {
  GraphBuilder graph(1);
  Collective op{c.kind, Group::tensor, c.bytes / 4, DType::fp32, Reduce::sum};
  op.copies = c.copies;
  graph.add(0, graph.one("collective", Stream::tensor, op));
  const TaskGraph g = graph.take();
  Shape shape = c.shape;
  shape.devices = c.ranks;
  shape.bandwidth = Bandwidth::bytes_per_second(kBandwidth);
  shape.latency = kAlpha;
  const FakeTopology topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(c.ranks, 1, 1);
  return simulate_step({g, m, topology, cost}, {unfolded, {}}).step_time;
}

/// steps x (alpha + bytes per step / B), in ps.
double closed_form(std::int64_t steps, double bytes_a_step) {
  return static_cast<double>(steps) * (static_cast<double>(kAlpha.ps()) + bytes_a_step / kBandwidth * 1e12);
}

}  // namespace

TEST_CASE("a ring all-reduce takes 2(n-1) a + 2(n-1)/n S/B on a crossbar and on a torus") {
  const auto scale_up = GENERATE(ScaleUp::crossbar, ScaleUp::shared_memory);
  const std::int64_t n = GENERATE(2, 3, 8, 64);
  CollectiveCase c;
  c.ranks = n;
  c.bytes = n * 65536;
  c.shape.scale_up = scale_up;
  CHECK(std::abs(static_cast<double>(time(c).ps()) - closed_form(2 * (n - 1), 65536)) <=
        static_cast<double>(2 * (n - 1)));
}

TEST_CASE("gathers and scatters by ring take half as many steps") {
  const auto kind = GENERATE(CollectiveKind::all_gather, CollectiveKind::reduce_scatter);
  const std::int64_t n = GENERATE(2, 5, 16);
  CollectiveCase c;
  c.kind = kind;
  c.ranks = n;
  c.bytes = n * 40000;
  CHECK(std::abs(static_cast<double>(time(c).ps()) - closed_form(n - 1, 40000)) <= static_cast<double>(n - 1));
}

TEST_CASE("an algorithm that the plan asks for takes its own time, whatever the fabric's library would do") {
  const std::int64_t n = GENERATE(2, 8, 64);
  CollectiveCase c;
  c.ranks = n;
  c.bytes = n * 65536;
  const auto rounds = static_cast<std::int64_t>(std::log2(n));
  const double S = static_cast<double>(c.bytes), share = static_cast<double>(n - 1) / static_cast<double>(n);
  const auto check = [&](Algorithm a, std::int64_t steps, double bytes) {
    c.shape.algorithm = a;
    const double expected = static_cast<double>(steps * kAlpha.ps()) + bytes / kBandwidth * 1e12;
    CHECK(std::abs(static_cast<double>(time(c).ps()) - expected) <= static_cast<double>(steps));
    CHECK(time(c, true) == time(c));
  };
  check(Algorithm::halving_doubling, 2 * rounds, 2 * share * S);
  check(Algorithm::tree, rounds, static_cast<double>(rounds) * S);
  check(Algorithm::direct, 2, 2 * share * S);
  check(Algorithm::ring, 2 * (n - 1), 2 * share * S);
}

TEST_CASE("a direct all-reduce on a full mesh takes two steps of S/n on every link") {
  const std::int64_t n = GENERATE(2, 4, 8);
  CollectiveCase c;
  c.ranks = n;
  c.bytes = n * 65536;
  c.shape.scale_up = ScaleUp::full_mesh;
  CHECK(std::abs(static_cast<double>(time(c).ps()) - closed_form(2, 65536)) <= 2);
}

TEST_CASE("two rings in opposite directions on a torus carry half of the bytes each") {
  const std::int64_t n = GENERATE(4, 8);
  CollectiveCase c;
  c.ranks = n;
  c.bytes = 2 * n * 32768;
  c.shape.scale_up = ScaleUp::torus;
  CHECK(std::abs(static_cast<double>(time(c).ps()) - closed_form(2 * (n - 1), 32768)) <=
        static_cast<double>(2 * (n - 1)));
}

TEST_CASE("the golden ring of 64 ranks and 1 GiB is met within one tick a step") {
  CollectiveCase c;
  c.ranks = 64;
  c.bytes = std::int64_t{1} << 30;
  const Duration t = time(c);
  // LogGP rounds each of the 126 steps down to whole nanoseconds: 42 341 544 ns.
  CHECK(std::abs(static_cast<double>(t.ps()) / 1000 - 42'341'544.0) <= 126);
  CHECK(t.ps() / 126 / 1000 * 126 == 42'341'544);
}

TEST_CASE("a large message through a switch is not stored and forwarded") {
  // Two links in a row: S/B once, plus the latencies.
  GraphBuilder graph(2);
  graph.add(0, graph.one("send", Stream::send, Send{1 << 20, DType::fp32, 1}));
  graph.add(1, graph.one("recv", Stream::recv, Recv{1 << 20, DType::fp32, -1}));
  const TaskGraph g = graph.take();
  Shape shape;
  shape.devices = 2;
  shape.latency = kAlpha;
  const FakeTopology topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(1, 1, 2);
  const double expected = closed_form(1, 4.0 * (1 << 20));
  CHECK(std::abs(static_cast<double>(simulate_step({g, m, topology, cost}).step_time.ps()) - expected) <= 1);
}

TEST_CASE("a library that reaches half of the links takes twice the bandwidth time and its overhead once") {
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor,
                         Collective{CollectiveKind::all_reduce, Group::tensor, 4 * 16384, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();
  Shape shape;
  shape.devices = 4;
  shape.latency = kAlpha;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.fit.overhead = Duration::nanoseconds(777);
  cost.fit.inside_share = 0.5;
  const Mesh m = mesh(4, 1, 1);
  const double expected = 6 * (500e3 + 2 * 65536 / kBandwidth * 1e12) + 777e3;
  CHECK(std::abs(static_cast<double>(simulate_step({g, m, topology, cost}).step_time.ps()) - expected) <= 6);
}

TEST_CASE("a measured communication takes its measured time, whatever the links") {
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor,
                         Collective{CollectiveKind::all_reduce, Group::tensor, 1000, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();
  Shape shape;
  shape.devices = 4;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.measured = Duration::nanoseconds(1234);
  const Mesh m = mesh(4, 1, 1);
  CHECK(simulate_step({g, m, topology, cost}).step_time == Duration::nanoseconds(1234));
}

TEST_CASE("no all-reduce beats its bandwidth bound") {
  const auto scale_up = GENERATE(ScaleUp::crossbar, ScaleUp::full_mesh, ScaleUp::torus);
  const std::int64_t n = GENERATE(2, 4, 8);
  CollectiveCase c;
  c.ranks = n;
  c.bytes = 1 << 22;
  c.shape.scale_up = scale_up;
  // Every rank must put 2(n-1)/n S on its links; a mesh has n-1 of them, a torus two.
  const double links = scale_up == ScaleUp::full_mesh ? static_cast<double>(n - 1)
                       : scale_up == ScaleUp::torus ? 2
                                                      : 1;
  const auto nd = static_cast<double>(n);
  const double bound = 2 * (nd - 1) / nd * static_cast<double>(c.bytes) / (kBandwidth * links) * 1e12;
  CHECK(static_cast<double>(time(c).ps()) >= bound - 1);
}

TEST_CASE("an all-to-all takes a + (n-1)/n S/B on a crossbar, and no less than n S / (8 B) on a ring") {
  const std::int64_t n = GENERATE(2, 4, 8, 16);
  CollectiveCase c;
  c.kind = CollectiveKind::all_to_all;
  c.ranks = n;
  c.bytes = n * 65536;
  CHECK(std::abs(static_cast<double>(time(c).ps()) - closed_form(1, static_cast<double>((n - 1) * 65536))) <= 1);
  c.shape.scale_up = ScaleUp::torus;
  const double bound = static_cast<double>(n * c.bytes) / (8 * kBandwidth) * 1e12;
  CHECK(static_cast<double>(time(c).ps()) >= bound - 1);
}

TEST_CASE("copies of tokens take what both tiers send through one port") {
  CollectiveCase c;
  c.kind = CollectiveKind::all_to_all;
  c.ranks = 8;
  c.shape.per_node = 4;
  c.copies = {16, 4, 1, 1, DType::fp32};
  c.bytes = std::int64_t{4} * (1 << 20) * c.copies.per_token;  // a million elements of tokens
  const double tokens = 4.0 * (1 << 20), rank = share_that_visits(c.copies, 8), node = share_that_visits(c.copies, 2);
  // Inside, a member passes on what came from both nodes to three others; across, its own to one.
  const double inside = 2 * 3 * rank * tokens, across = node * tokens;
  const double expected = 2 * static_cast<double>(kAlpha.ps()) + (inside + across) / kBandwidth * 1e12;
  CHECK(static_cast<double>(time(c).ps()) == Approx(expected).epsilon(0.02));
}

TEST_CASE("a lone collective takes the same time folded and unfolded, to the tick") {
  const auto scale_up = GENERATE(ScaleUp::crossbar, ScaleUp::full_mesh, ScaleUp::torus);
  CollectiveCase c;
  c.ranks = 8;
  c.bytes = 1'000'004;
  c.shape.scale_up = scale_up;
  CHECK(time(c) == time(c, true));
}
