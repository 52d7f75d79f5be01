#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "models/ops/collective.hpp"
#include "models/ops/collective_bytes.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

constexpr double kAlpha = 3, kInside = 7, kAcross = 2;  // seconds; bytes per second of a rank's port, each way

Collective collective(CollectiveKind kind, std::int64_t elements) {
  return {kind, Group::world, elements, DType::fp32, Reduce::sum};
}

/// `nodes` x `per_node` members, node by node.
GroupShape grid(std::int32_t nodes, std::int32_t per_node) {
  GroupShape shape;
  for (std::int32_t n = 0; n < nodes; ++n)
    for (std::int32_t i = 0; i < per_node; ++i) shape.node.push_back(n);
  return shape;
}

/// Most flows that leave or enter one member.
std::int64_t busiest_port(const CommPhase& p) {
  std::map<std::int32_t, std::int64_t> out, in;
  std::int64_t most = 0;
  for (const Flow& f : p.flows) most = std::max({most, ++out[f.from], ++in[f.to]});
  return most;
}

/// Seconds on a non-blocking star: every step waits for its slowest port.
double star_seconds(const Expansion& e, double alpha, double inside, double across) {
  double latency = 0, tier[2] = {0, 0};
  for (const CommPhase& p : e.phases) {
    const bool out = p.tier == Tier::across;
    latency += static_cast<double>(p.steps) * alpha;
    tier[out] += static_cast<double>(p.steps * p.bytes.count() * busiest_port(p)) / (out ? across : inside);
  }
  return latency + (e.pipelined ? std::max(tier[0], tier[1]) : tier[0] + tier[1]);
}

double seconds(CollectiveKind kind, Algorithm a, std::int32_t n, std::int64_t elements) {
  return star_seconds(expand(collective(kind, elements), a, grid(1, n)), kAlpha, kInside, kInside);
}

/// Bytes that each member sends (first) and receives (second).
std::map<std::int32_t, std::pair<double, double>> moved(const Expansion& e) {
  std::map<std::int32_t, std::pair<double, double>> bytes;
  for (const CommPhase& p : e.phases)
    for (const Flow& f : p.flows) {
      bytes[f.from].first += static_cast<double>(p.steps * p.bytes.count());
      bytes[f.to].second += static_cast<double>(p.steps * p.bytes.count());
    }
  return bytes;
}

/// Members whose data can have reached `member` when the collective ends.
std::set<std::int32_t> heard(const Expansion& e, std::int32_t member) {
  std::map<std::int32_t, std::set<std::int32_t>> knows;
  for (const CommPhase& p : e.phases)
    for (std::int64_t step = 0; step < p.steps; ++step) {
      auto next = knows;
      for (const Flow& f : p.flows) {
        next[f.to].insert(f.from);
        next[f.to].insert(knows[f.from].begin(), knows[f.from].end());
      }
      knows = next;
    }
  knows[member].insert(member);
  return knows[member];
}

using Sizes = std::vector<std::int32_t>;
using enum CollectiveKind;
using enum Algorithm;

}  // namespace

TEST_CASE("collectives on a star take the time of their closed forms") {
  const int n = GENERATE(2, 3, 4, 7, 8, 16);
  const std::int64_t elements = 1680 * n;  // divides by every n here and by 2n
  const double S = 4.0 * static_cast<double>(elements), N = n, B = kInside, a = kAlpha;
  const auto log2n = std::ceil(std::log2(N));
  const bool power = (n & (n - 1)) == 0;
  INFO("n = " << n);
  CHECK(seconds(all_reduce, ring, n, elements) == Approx(2 * (N - 1) * a + 2 * (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(all_gather, ring, n, elements) == Approx((N - 1) * a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(reduce_scatter, ring, n, elements) == Approx((N - 1) * a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(all_to_all, ring, n, elements) == Approx((N - 1) * a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(all_reduce, direct, n, elements) == Approx(2 * a + 2 * (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(all_gather, direct, n, elements) == Approx(a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(all_gather, tree, n, elements) == Approx(log2n * a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(reduce_scatter, tree, n, elements) == Approx(log2n * a + (N - 1) / N * S / B).epsilon(1e-12));
  CHECK(seconds(broadcast, tree, n, elements) == Approx(log2n * (a + S / B)).epsilon(1e-12));
  CHECK(seconds(broadcast, ring, n, elements) == Approx((N - 2 + N) * (a + S / (N * B))).epsilon(1e-12));
  if (!power) return;
  CHECK(seconds(all_reduce, tree, n, elements) == Approx(log2n * (a + S / B)).epsilon(1e-12));
  CHECK(seconds(all_to_all, tree, n, elements) == Approx(log2n * (a + S / (2 * B))).epsilon(1e-12));
  CHECK(seconds(all_reduce, halving_doubling, n, elements) == Approx(2 * log2n * a + 2 * (N - 1) / N * S / B).epsilon(1e-12));
  for (const CollectiveKind kind : {all_gather, reduce_scatter})
    CHECK(seconds(kind, halving_doubling, n, elements) == Approx(log2n * a + (N - 1) / N * S / B).epsilon(1e-12));
}

TEST_CASE("a two-way ring halves the bytes on every directed link") {
  const Expansion one = expand(collective(all_reduce, 6400), ring, grid(1, 8));
  const Expansion two = expand(collective(all_reduce, 6400), two_way_ring, grid(1, 8));
  REQUIRE(two.phases.size() == 1);
  CHECK(two.phases[0].bytes * 2 == one.phases[0].bytes);
  CHECK(two.phases[0].steps == one.phases[0].steps);
  std::set<Flow> flows(two.phases[0].flows.begin(), two.phases[0].flows.end());
  CHECK(flows.size() == 16);
  for (const Flow& f : one.phases[0].flows) CHECK((flows.contains(f) && flows.contains({f.to, f.from})));
}

TEST_CASE("a hierarchical all-reduce takes the time of its closed form") {
  const std::int32_t g = GENERATE(2, 4, 8), nodes = GENERATE(2, 3, 16);
  const std::int64_t elements = 96 * g * nodes;
  Expansion e = expand(collective(all_reduce, elements), hierarchical, grid(nodes, g));
  const double S = 4.0 * static_cast<double>(elements), G = g, N = nodes;
  const double inside = 2 * (G - 1) / G * S / kInside, across = 2 * (N - 1) / N * S / (G * kAcross);
  const double latency = (2 * (G - 1) + 2 * (N - 1)) * kAlpha;
  CHECK(star_seconds(e, kAlpha, kInside, kAcross) == Approx(latency + std::max(inside, across)).epsilon(1e-12));
  e.pipelined = false;
  CHECK(star_seconds(e, kAlpha, kInside, kAcross) == Approx(latency + inside + across).epsilon(1e-12));
}

TEST_CASE("a hierarchical all-to-all exchanges inside the nodes and along the rails") {
  const std::int32_t g = GENERATE(2, 4, 8), nodes = GENERATE(2, 3, 16);
  const std::int64_t elements = 96 * g * nodes;
  Expansion e = expand(collective(all_to_all, elements), hierarchical, grid(nodes, g));
  e.pipelined = false;
  const double S = 4.0 * static_cast<double>(elements), G = g, N = nodes;
  CHECK(star_seconds(e, kAlpha, kInside, kAcross) ==
        Approx((G - 1 + N - 1) * kAlpha + (G - 1) / G * S / kInside + (N - 1) / N * S / kAcross).epsilon(1e-12));
}

TEST_CASE("only phases across nodes cross nodes, and only along rails") {
  const CollectiveKind kind = GENERATE(all_reduce, all_gather, reduce_scatter, broadcast, all_to_all);
  const GroupShape shape = grid(3, 4);
  const auto node = [&](std::int32_t i) { return shape.node[static_cast<std::size_t>(i)]; };
  for (const CommPhase& p : expand(collective(kind, 4800), hierarchical, shape, direct).phases)
    for (const Flow& f : p.flows) {
      CHECK((node(f.from) != node(f.to)) == (p.tier == Tier::across));
      if (p.tier == Tier::across) CHECK(f.from % 4 == f.to % 4);
    }
}

TEST_CASE("no collective moves less than information theory asks for") {
  const CollectiveKind kind = GENERATE(all_reduce, all_gather, reduce_scatter, all_to_all);
  const Algorithm a = GENERATE(ring, two_way_ring, direct, tree, hierarchical, halving_doubling, multi_ring);
  const auto shape = GENERATE(as<GroupShape>{}, grid(1, 2), grid(1, 5), grid(2, 4), grid(5, 3), grid(7, 1));
  const std::int64_t elements = GENERATE(1, 97, 100000);
  const double n = static_cast<double>(shape.size()), S = 4.0 * static_cast<double>(elements);
  const double least = (kind == all_reduce ? 2 : 1) * (n - 1) / n * S;
  double sent = 0;
  for (const auto& [member, bytes] : moved(expand(collective(kind, elements), a, shape))) sent += bytes.first;
  INFO(name(kind) << " by " << name(a) << ", " << n << " members, " << elements << " elements");
  CHECK(sent / n >= least * (1 - 1e-12));  // summed over members: a tree may spare one of them
}

TEST_CASE("everyone hears from everyone, and everyone hears a broadcast") {
  const CollectiveKind kind = GENERATE(all_reduce, all_gather, reduce_scatter, all_to_all, broadcast);
  const Algorithm a = GENERATE(ring, two_way_ring, direct, tree, hierarchical, halving_doubling, multi_ring);
  const auto shape = GENERATE(as<GroupShape>{}, grid(1, 2), grid(1, 6), grid(3, 2), grid(2, 4));
  const Expansion e = expand(collective(kind, 960), a, shape);
  INFO(name(kind) << " by " << name(a) << ", " << shape.size() << " members");
  for (std::int32_t m = 0; m < shape.size(); ++m) {
    const auto from = heard(e, m);
    if (kind == broadcast)
      CHECK(from.contains(0));
    else
      CHECK(static_cast<std::int64_t>(from.size()) == shape.size());
  }
}

TEST_CASE("sizes that do not divide are rounded up to whole elements") {
  const Expansion e = expand(collective(all_reduce, 10), ring, grid(1, 4));
  CHECK(e.phases[0].bytes == Bytes(12));  // ceil(10 / 4) elements of 4 bytes
  CHECK(expand(collective(all_reduce, 1), direct, grid(1, 8)).phases[0].bytes == Bytes(4));
}

TEST_CASE("a group of one moves nothing") {
  const Algorithm a = GENERATE(ring, two_way_ring, direct, tree, hierarchical, halving_doubling, multi_ring);
  CHECK(expand(collective(all_reduce, 100), a, grid(1, 1)).phases.empty());
}

TEST_CASE("a ring follows the order it is given") {
  GroupShape shape = grid(1, 4);
  shape.ring = {0, 2, 3, 1};
  const auto flows = expand(collective(all_gather, 8), ring, shape).phases[0].flows;
  CHECK(flows == std::vector<Flow>{{0, 2}, {2, 3}, {3, 1}, {1, 0}});
}

TEST_CASE("rings over nodes of unlike size are as many as the smallest has members, each with its own way in and out") {
  const CollectiveKind kind = GENERATE(all_reduce, all_gather, reduce_scatter);
  const Algorithm inside = GENERATE(ring, direct);
  const auto sizes =
      GENERATE(as<Sizes>{}, Sizes({8, 4}), Sizes({3, 8, 5}), Sizes({8, 7}), Sizes({4, 4}), Sizes({8, 1}), Sizes({8, 8, 2}));
  GroupShape shape;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    shape.node.insert(shape.node.end(), static_cast<std::size_t>(sizes[i]), static_cast<std::int32_t>(i));
  const std::int64_t n = shape.size(), rings = *std::min_element(sizes.begin(), sizes.end()), elements = 960 * n * rings;
  const Expansion e = expand(collective(kind, elements), multi_ring, shape, inside);
  REQUIRE((e.phases.size() == 2 && e.pipelined));
  std::map<std::int32_t, std::int64_t> leaving, entering, of_node;  // flows between nodes
  std::map<Flow, std::int64_t> uses;
  std::int64_t flows = 0;
  for (const CommPhase& p : e.phases) {
    CHECK(p.steps == (kind == all_reduce ? 2 : 1) * (n - 1));
    CHECK(p.bytes == Bytes(4 * elements / (n * rings)));
    flows += static_cast<std::int64_t>(p.flows.size());
    for (const Flow& f : p.flows) {
      const std::int32_t from = shape.node[static_cast<std::size_t>(f.from)], to = shape.node[static_cast<std::size_t>(f.to)];
      CHECK((from != to) == (p.tier == Tier::across));
      ++uses[f];
      if (from == to) continue;
      CHECK((++leaving[f.from] == 1 && ++entering[f.to] == 1));
      ++of_node[from];
    }
  }
  CHECK(flows == n * rings);
  for (const auto& [node, ways] : of_node) CHECK(ways == rings);
  CHECK(of_node.size() == sizes.size());
  if (inside == direct)
    for (const auto& [flow, times] : uses) CHECK(times <= 2);  // a mesh's links are shared out: one ring each, two where a node is odd
  Expansion whole{{CommPhase{e.phases[0].steps, e.phases[0].bytes, e.phases[0].flows}}, false};
  whole.phases[0].flows.insert(whole.phases[0].flows.end(), e.phases[1].flows.begin(), e.phases[1].flows.end());
  for (std::int32_t m = 0; m < n; ++m) CHECK(static_cast<std::int64_t>(heard(whole, m).size()) == n);
}

TEST_CASE("between two nodes rings stay on their rails, but the first where nodes are unlike") {
  GroupShape shape = grid(1, 8);
  shape.node.insert(shape.node.end(), 4, 1);
  std::int64_t changes = 0;
  const Expansion sum = expand(collective(all_reduce, 4800), multi_ring, shape);
  for (const Flow& f : sum.phases[1].flows) {
    const auto rail = [](std::int32_t member) { return member < 8 ? member : member - 8; };
    changes += rail(f.from) != rail(f.to);
  }
  CHECK(changes == 1);  // the first ring leaves the larger node from its last member
}

TEST_CASE("the library's choice follows the fabric and the placement") {
  const Collective ar = collective(all_reduce, 1 << 20);
  const auto chosen = [&](ScaleUp s, const GroupShape& g) { return choose_algorithm(s, ar, g).algorithm; };
  CHECK(chosen(ScaleUp::crossbar, grid(1, 8)) == ring);
  CHECK(chosen(ScaleUp::full_mesh, grid(1, 8)) == direct);
  CHECK(chosen(ScaleUp::torus, grid(1, 32)) == two_way_ring);
  CHECK(chosen(ScaleUp::crossbar, grid(16, 1)) == ring);
  CHECK(chosen(ScaleUp::crossbar, grid(4, 2)) == hierarchical);
  CHECK(choose_algorithm(ScaleUp::full_mesh, ar, grid(4, 2)).inside == direct);
  GroupShape uneven = grid(2, 2);
  uneven.node.push_back(2);
  CHECK(chosen(ScaleUp::crossbar, uneven) == multi_ring);
  CHECK_THROWS_AS(expand(ar, hierarchical, uneven), ContractError);
}

TEST_CASE("bytes on the wire are those that a member of a ring sends in all of its steps") {
  using enum CollectiveKind;
  const CollectiveKind kind = GENERATE(all_reduce, all_gather, reduce_scatter, broadcast);
  const std::int32_t n = GENERATE(2, 3, 8);
  const Collective op = collective(kind, 240 * n);
  const CommPhase ring = expand(op, Algorithm::ring, grid(1, n)).phases.front();
  CHECK(ring_steps(kind, n) == ring.steps);
  CHECK(wire_bytes(kind, payload(op), n) == static_cast<double>(ring.steps * ring.bytes.count()));
  CHECK(payload(op) == payload(Op(op)));
}
