#include <random>

#include "sim/engine/simulate_step.hpp"
#include "sim/result/breakdown.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

struct Result {
  Duration step;
  std::int64_t credit_stall_ps = 0;   ///< worst stage
  std::vector<std::int64_t> busy_ps;  ///< by stage
};

/// Plays a pipeline of one rank a stage with latency `c` between stages, links infinitely fast and launches free.
Result run(const PipelineCase& pipeline, Duration c) {
  const TaskGraph graph = pipeline_graph(pipeline);
  Shape shape;
  shape.devices = pipeline.stages;
  shape.latency = c;
  const FakeTopology topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(1, 1, pipeline.stages);
  const SimulatedStep simulated = sim::simulate_step({graph, m, topology, cost});
  Result result{simulated.step_time, 0, {}};
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    const Breakdown b = break_down(simulated, graph, r);
    result.credit_stall_ps = std::max(result.credit_stall_ps, b.credit_stall_ps);
    result.busy_ps.push_back(b[Share::compute]);
  }
  return result;
}

Duration one_f_one_b_time(std::int64_t p, std::int64_t m, Duration both, Duration c) {
  return (m + p - 1) * both + 2 * ((p - 1) * m / p + (p - 2)) * c;
}

Duration gpipe_time(std::int64_t p, std::int64_t m, Duration both, Duration c) {
  return (m + p - 1) * both + 2 * (p - 1) * c;
}

/// Each stage does its passes in order; one starts when the stage is free and its input, sent on at once, has arrived
/// (oracles: the list scheduler of the closed forms). Knows nothing of streams, buffers or rendezvous.
Duration list_schedule(const PipelineCase& c, Duration latency) {
  const auto p = static_cast<std::size_t>(c.stages), m = static_cast<std::size_t>(c.micro_batches);
  std::vector<std::vector<Duration>> end[2];
  for (auto& e : end) e.assign(p, std::vector<Duration>(m, Duration::max()));
  std::vector<std::vector<Pass>> todo;
  for (int s = 0; s < c.stages; ++s)
    todo.push_back(c.gpipe ? gpipe(c.micro_batches) : one_f_one_b(c.stages, c.micro_batches, s));
  std::vector<std::size_t> next(p, 0);
  std::vector<Duration> free(p);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < p; ++s) {
      if (next[s] == todo[s].size()) continue;
      const Pass pass = todo[s][next[s]];
      const auto mb = static_cast<std::size_t>(pass.micro_batch);
      Duration start = free[s];
      if (pass.forward ? s > 0 : s + 1 < p) {
        const Duration input = end[pass.forward][pass.forward ? s - 1 : s + 1][mb];
        if (input == Duration::max()) continue;
        start = std::max(start, input + latency);
      }
      free[s] = end[pass.forward][s][mb] = start + (pass.forward ? c.forward[s] : c.backward[s]);
      ++next[s];
      moved = true;
    }
  }
  return *std::max_element(free.begin(), free.end());
}

const Duration kUnit = Duration::nanoseconds(10);

}  // namespace

TEST_CASE("1F1B takes exactly the closed form with latency when stages divide micro-batches") {
  const int p = GENERATE(2, 4, 8);
  const auto [f, b] = GENERATE(std::pair{1, 2}, std::pair{1, 1}, std::pair{3, 4});
  for (int m = p; m <= 8 * p; m += p)
    for (int tenth = 0; tenth <= 5; ++tenth) {
      const Duration forward = f * kUnit, backward = b * kUnit;
      const Duration c = Duration::picoseconds(forward.ps() * tenth / 10);
      const Result result = run(equal_stages(p, m, forward, backward), c);
      REQUIRE(result.step == one_f_one_b_time(p, m, forward + backward, c));
      CHECK(result.credit_stall_ps == 0);
      for (const std::int64_t busy : result.busy_ps) CHECK(busy == m * (forward + backward).ps());
    }
}

TEST_CASE("GPipe pays the latency once") {
  const int p = GENERATE(2, 4, 8);
  for (int m = p; m <= 5 * p; m += p)
    for (int c = 0; c <= 5; ++c) {
      PipelineCase pipeline = equal_stages(p, m, kUnit, 2 * kUnit);
      pipeline.gpipe = true;
      REQUIRE(run(pipeline, Duration::nanoseconds(c)).step == gpipe_time(p, m, 3 * kUnit, Duration::nanoseconds(c)));
    }
}

TEST_CASE("golden makespans of the literature are met to the tick") {
  struct Golden {
    int p, m;
    std::int64_t c_tenths;
    double gpipe, one_f_one_b;
  };
  const auto g = GENERATE(Golden{4, 8, 0, 33, 33}, Golden{4, 8, 1, 33.6, 34.6}, Golden{4, 8, 5, 36, 41},
                          Golden{8, 32, 0, 117, 117}, Golden{8, 32, 1, 118.4, 123.8}, Golden{8, 32, 5, 124, 151});
  PipelineCase pipeline = equal_stages(g.p, g.m, kUnit, 2 * kUnit);
  const Duration c = Duration::nanoseconds(g.c_tenths);
  CHECK(run(pipeline, c).step == Duration::nanoseconds(std::llround(g.one_f_one_b * 10)));
  pipeline.gpipe = true;
  CHECK(run(pipeline, c).step == Duration::nanoseconds(std::llround(g.gpipe * 10)));
}

TEST_CASE("a list scheduler gives the same makespans on random pipelines with unequal stages and latency") {
  std::mt19937 random(42);
  for (int i = 0; i < 200; ++i) {
    PipelineCase c;
    c.stages = static_cast<int>(1 + random() % 8);
    c.micro_batches = static_cast<int>(1 + random() % 20);
    c.gpipe = random() % 3 == 0;
    std::int64_t least = INT64_MAX;
    for (int s = 0; s < c.stages; ++s) {
      c.forward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 10'000)));
      c.backward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 30'000)));
      least = std::min(least, c.forward.back().ps());
    }
    const Duration latency = Duration::picoseconds(static_cast<std::int64_t>(random()) % (least / 2 + 1));
    REQUIRE(run(c, latency).step == list_schedule(c, latency));
  }
}

TEST_CASE("with one receive buffer a GPipe is later than its closed form, and the stall is told") {
  const int p = GENERATE(2, 4, 8);
  PipelineCase pipeline = equal_stages(p, 2 * p, kUnit, 2 * kUnit);
  pipeline.gpipe = true;
  pipeline.buffers = 1;
  const Duration c = Duration::nanoseconds(2);
  const Result result = run(pipeline, c);
  CHECK(result.step > gpipe_time(p, 2 * p, 3 * kUnit, c));
  CHECK(result.credit_stall_ps > 0);
}

TEST_CASE("with one receive buffer 1F1B over unequal stages is later than with two, and never earlier") {
  std::mt19937 random(5);
  int later = 0, told = 0;
  for (int i = 0; i < 100; ++i) {
    PipelineCase c;
    c.stages = static_cast<int>(2 + random() % 6);
    c.micro_batches = static_cast<int>(4 + random() % 12);
    for (int s = 0; s < c.stages; ++s) {
      c.forward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 10'000)));
      c.backward.push_back(Duration::picoseconds(static_cast<std::int64_t>(10'000 + random() % 30'000)));
    }
    const Duration latency = Duration::picoseconds(4'000);
    const Duration two = run(c, latency).step;
    c.buffers = 1;
    const Result one = run(c, latency);
    REQUIRE(one.step >= two);
    later += one.step > two;
    told += one.step > two && one.credit_stall_ps > 0;
  }
  CHECK(later > 10);
  CHECK(told == later);
}

TEST_CASE("with equal stages and latency up to half a forward one receive buffer is as good to 1F1B as two") {
  // The condition under which one buffer does not show: a buffer is free again when its micro-batch has been computed,
  // and equal stages never have the next one ready before that.
  const int p = GENERATE(2, 4, 8);
  for (int m = p; m <= 4 * p; m += p)
    for (int tenth = 0; tenth <= 5; ++tenth) {
      const Duration c = Duration::nanoseconds(tenth);
      PipelineCase pipeline = equal_stages(p, m, kUnit, 2 * kUnit);
      pipeline.buffers = 1;
      REQUIRE(run(pipeline, c).step == one_f_one_b_time(p, m, 3 * kUnit, c));
    }
}

TEST_CASE("no schedule beats its busiest stage or its critical path") {
  std::mt19937 random(6);
  for (int i = 0; i < 50; ++i) {
    PipelineCase c =
        equal_stages(static_cast<int>(1 + random() % 6), static_cast<int>(1 + random() % 12), kUnit, 2 * kUnit);
    const Duration latency = Duration::nanoseconds(static_cast<std::int64_t>(random() % 20));
    const Duration step = run(c, latency).step;
    CHECK(step >= c.micro_batches * (3 * kUnit));
    CHECK(step >= c.stages * (3 * kUnit) + 2 * (c.stages - 1) * latency);
  }
}
