#include "sim/network/network.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr double kLink = 50e9;  // bytes per second

struct FlowCase {
  std::vector<std::uint32_t> links;
  std::int64_t bytes;
  std::int64_t start_ps = 0;
};

/// End of every flow in ps. Flow starts are events of their own, as in the engine.
std::vector<std::int64_t> run(std::size_t links, const std::vector<FlowCase>& flows) {
  const auto n = static_cast<std::uint32_t>(flows.size());
  std::vector<std::vector<LinkUse>> uses;
  std::vector<std::vector<Segment>> segments;
  for (std::uint32_t i = 0; i < n; ++i) {
    uses.emplace_back();
    for (const std::uint32_t l : flows[i].links) uses[i].push_back({l, 1});
    segments.push_back({{i, work_of(Bytes(flows[i].bytes))}});
  }
  EventQueue queue;
  Network network(std::vector<Capacity>(links, {rate_of(Bandwidth::bytes_per_second(kLink)), {}}), uses, n, queue);
  for (std::uint32_t i = 0; i < n; ++i) queue.schedule(Duration::picoseconds(flows[i].start_ps), n + i, 0);
  std::vector<std::int64_t> ended(n, -1);
  while (network.pending()) {
    const Event e = queue.pop();
    if (e.target >= n)
      network.start(e.target - n, segments[e.target - n]);
    else if (network.take(e))
      ended[e.target] = queue.now().ps();
  }
  return ended;
}

std::int64_t seconds_of(double bytes) { return static_cast<std::int64_t>(bytes / kLink * 1e12 + 0.5); }

/// The same in floating point and as plainly as can be: at every start and end all rates anew, by filling links.
std::vector<double> plainly(std::size_t links, const std::vector<FlowCase>& flows) {
  std::vector<double> left, start, ended(flows.size(), -1);
  for (const FlowCase& f : flows)
    left.push_back(static_cast<double>(f.bytes)), start.push_back(static_cast<double>(f.start_ps) * 1e-12);
  const auto under_way = [&](std::size_t i, double now) { return ended[i] < 0 && start[i] <= now; };
  const auto crosses = [&](std::size_t i, std::size_t l) {
    return std::count(flows[i].links.begin(), flows[i].links.end(), l) > 0;
  };
  for (double now = 0;;) {
    std::vector<double> rate(flows.size(), 0), free(links, kLink);
    for (;;) {
      std::vector<int> open(links, 0);
      for (std::size_t i = 0; i < flows.size(); ++i)
        if (under_way(i, now) && rate[i] == 0)
          for (const std::uint32_t l : flows[i].links) ++open[l];
      std::size_t tight = links;
      for (std::size_t l = 0; l < links; ++l)
        if (open[l] > 0 && (tight == links || free[l] / open[l] < free[tight] / open[tight])) tight = l;
      if (tight == links) break;
      const double share = free[tight] / open[tight];
      for (std::size_t i = 0; i < flows.size(); ++i) {
        if (!under_way(i, now) || rate[i] != 0 || !crosses(i, tight)) continue;
        rate[i] = share;
        for (const std::uint32_t l : flows[i].links) free[l] -= share;
      }
    }
    double next = INFINITY;
    for (std::size_t i = 0; i < flows.size(); ++i)
      if (under_way(i, now)) next = std::min(next, now + left[i] / rate[i]);
      else if (ended[i] < 0) next = std::min(next, start[i]);
    if (next == INFINITY) return ended;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (!under_way(i, now)) continue;
      left[i] -= rate[i] * (next - now);
      if (left[i] < 1e-3) ended[i] = next;
    }
    now = next;
  }
}

}  // namespace

TEST_CASE("flows through a crossbar end when a solver in floating point says, also those that start and end together") {
  std::mt19937 random(7);
  const std::uint32_t hosts = 9;
  std::vector<FlowCase> flows;
  for (std::uint32_t from = 0; from < hosts; ++from)
    for (std::uint32_t to = 0; to < hosts; ++to)
      if (from != to) {
        const bool alike = random() % 2 == 0;  // in waves of equal flows, or at times and of sizes of their own
        const auto bytes = static_cast<std::int64_t>(alike ? 1'000'000 : 500'000 + random() % 1'000'000);
        const auto start = static_cast<std::int64_t>(alike ? 20'000'000 * (random() % 5) : random() % 100'000'000);
        flows.push_back({{from, hosts + to}, bytes, start});
      }
  const auto ended = run(2 * hosts, flows);
  const auto expected = plainly(2 * hosts, flows);
  for (std::size_t i = 0; i < flows.size(); ++i) CHECK(std::abs(static_cast<double>(ended[i]) * 1e-12 - expected[i]) < 1e-9);
}

TEST_CASE("an incast of k flows of s bytes takes k s / B") {
  const int k = GENERATE(1, 2, 5, 8);
  const std::int64_t bytes = 10'000'000;
  for (const std::int64_t end : run(1, std::vector<FlowCase>(static_cast<std::size_t>(k), {{0}, bytes})))
    CHECK(std::abs(end - seconds_of(static_cast<double>(k * bytes))) <= 1);
}

TEST_CASE("in a parking lot the long flow gets the whole links when the short flows have ended") {
  const std::int64_t bytes = 10'000'000;
  std::vector<FlowCase> flows{{{0, 1, 2}, 4 * bytes}};
  for (std::uint32_t l = 0; l < 3; ++l) flows.push_back({{l}, bytes});
  const auto ended = run(3, flows);
  // Shorts: s / (B/2). The long one has moved s by then and the remaining 3 s go at B.
  for (int i = 1; i <= 3; ++i) CHECK(std::abs(ended[static_cast<std::size_t>(i)] - seconds_of(2.0 * bytes)) <= 1);
  CHECK(std::abs(ended[0] - seconds_of(5.0 * bytes)) <= 1);
}

TEST_CASE("a flow that starts later shares from then on") {
  // The first is alone for 100 us (5 MB), then both share: 5 MB left at B/2 = 200 us; the second then has 5 MB left at
  // B.
  const auto ended = run(1, {{{0}, 10'000'000}, {{0}, 10'000'000, 100'000'000}});
  CHECK(ended[0] == 300'000'000);
  CHECK(ended[1] == 400'000'000);
}

TEST_CASE("flows that share nothing do not disturb each other") {
  const auto ended = run(2, {{{0}, 10'000'000}, {{1}, 20'000'000}});
  CHECK(ended[0] == 200'000'000);
  CHECK(ended[1] == 400'000'000);
}

TEST_CASE("a full exchange of equal messages on a star takes (n-1) s / B") {
  const std::uint32_t n = GENERATE(2u, 4u, 6u);
  std::vector<FlowCase> flows;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j < n; ++j)
      if (i != j) flows.push_back({{i, n + j}, 1'000'000});
  for (const std::int64_t end : run(2 * n, flows)) CHECK(std::abs(end - seconds_of((n - 1) * 1e6)) <= 1);
}

TEST_CASE("ends do not depend on the order in which flows are listed") {
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    std::vector<FlowCase> flows;
    for (int k = 0; k < 20; ++k) {
      FlowCase f{{},
                 static_cast<std::int64_t>(1 + random() % 5'000'000),
                 static_cast<std::int64_t>(random() % 4) * 50'000'000};
      for (std::uint32_t l = 0; l < 5; ++l)
        if (random() % 2 == 0) f.links.push_back(l);
      if (f.links.empty()) f.links.push_back(0);
      flows.push_back(f);
    }
    const auto ended = run(5, flows);
    std::vector<std::size_t> order(flows.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<FlowCase> shuffled;
    for (const std::size_t k : order) shuffled.push_back(flows[k]);
    const auto again = run(5, shuffled);
    for (std::size_t k = 0; k < order.size(); ++k) REQUIRE(again[k] == ended[order[k]]);
  }
}

TEST_CASE("every byte is moved: what a saturated link carried is its rate times the time it was busy") {
  std::mt19937 random(4);
  for (int i = 0; i < 50; ++i) {
    std::vector<FlowCase> flows;
    std::int64_t total = 0;
    for (int k = 0; k < 10; ++k) {
      flows.push_back({{0}, static_cast<std::int64_t>(1'000 + random() % 5'000'000)});
      total += flows.back().bytes;
    }
    const auto ended = run(1, flows);
    // Each end is rounded up to a picosecond, ten times.
    CHECK(std::abs(*std::max_element(ended.begin(), ended.end()) - seconds_of(static_cast<double>(total))) <= 10);
  }
}
