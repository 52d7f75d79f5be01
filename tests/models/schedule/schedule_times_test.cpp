// Step times and activations in flight of every schedule against closed forms, to the tick, by a list scheduler of the
// test's own.
#include <random>

#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// Most chunks of a micro-batch alive at once on a stage, from the start of the forward to the end of `last`.
std::int64_t in_flight(const std::vector<Span>& stage, Phase last) {
  std::int64_t alive = 0, most = 0;
  for (const Span& s : stage) {
    if (s.action.phase == Phase::forward) most = std::max(most, ++alive);
    if (s.action.phase == last) --alive;
  }
  CHECK(alive == 0);
  return most;
}

std::int64_t busy(const std::vector<Span>& stage) {
  std::int64_t ticks = 0;
  for (const Span& s : stage) ticks += s.end - s.start;
  return ticks;
}

/// Time between a stage's first start and its last end in which it does nothing.
std::int64_t idle(const std::vector<Span>& stage) { return stage.back().end - stage.front().start - busy(stage); }

const Ticks kGrid[] = {{1, 2}, {1, 1}, {3, 4}};
const Ticks kSplit[] = {{1, 1, 1}, {2, 2, 1}, {3, 4, 2}, {1, 2, 1}, {2, 1, 1}, {4, 4, 3}, {2, 3, 0}};

}  // namespace

TEST_CASE("GPipe and 1F1B take (m+p-1)(tF+tB)") {
  for (const Ticks& t : kGrid)
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 5 * p; ++m) {
        CAPTURE(p, m, t.forward, t.backward);
        CHECK(makespan(play(ScheduleKind::gpipe, {p, m}, t)) == (m + p - 1) * (t.forward + t.backward));
        CHECK(makespan(play(ScheduleKind::one_f_one_b, {p, m}, t)) == (m + p - 1) * (t.forward + t.backward));
      }
}

TEST_CASE("GPipe holds all micro-batches, 1F1B no more than stages from here to the end") {
  for (std::int64_t p = 1; p <= 8; ++p)
    for (std::int64_t m = 1; m <= 5 * p; ++m) {
      const Played g = play(ScheduleKind::gpipe, {p, m}, {}), o = play(ScheduleKind::one_f_one_b, {p, m}, {});
      for (std::size_t s = 0; s < g.size(); ++s) {
        CAPTURE(p, m, s);
        CHECK(in_flight(g[s], Phase::backward) == m);
        CHECK(in_flight(o[s], Phase::backward) == std::min(m, p - static_cast<std::int64_t>(s)));
      }
    }
}

TEST_CASE("GPipe pays the latency of a link once each way") {
  for (const std::int64_t c : {1, 5, 25})
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 3 * p; ++m)
        CHECK(makespan(play(ScheduleKind::gpipe, {p, m}, {10, 20, 0, c})) == (m + p - 1) * 30 + 2 * (p - 1) * c);
}

TEST_CASE("1F1B pays the latency of a link on every micro-batch") {
  // (p-1)m/p + (p-2) times both ways where p divides m. With r micro-batches more than whole rounds it is max(1, r-1)
  // and not their share (p-1)r/p of a round.
  for (const std::int64_t c : {1, 5, 25})
    for (std::int64_t p = 2; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 8 * p; ++m) {
        CAPTURE(p, m, c);
        const std::int64_t r = m % p,
                           paid = makespan(play(ScheduleKind::one_f_one_b, {p, m}, {10, 20, 0, c})) - (m + p - 1) * 30;
        CHECK(paid == 2 * c * ((p - 1) * (m / p) + (p - 2) + (r == 0 ? 0 : std::max<std::int64_t>(1, r - 1))));
        CHECK((p * paid == 2 * c * ((p - 1) * m + p * (p - 2))) == (r == 0));
      }
}

TEST_CASE("the interleaved schedule shortens the bubble by its chunks, if there are as many micro-batches as stages") {
  for (const std::int64_t v : {1, 2, 3, 4})
    for (const Ticks& grid : kGrid)
      for (std::int64_t p = 1; p <= 8; ++p)
        for (std::int64_t m = 1; m <= 3 * p + 1; ++m) {
          CAPTURE(p, m, v);
          const Ticks t{grid.forward * v, grid.backward * v};
          const std::int64_t chunk = grid.forward + grid.backward;
          const std::int64_t missing = std::max<std::int64_t>(0, p - m) * (v - 1);  // closed form's error below m = p
          CHECK(makespan(play(ScheduleKind::interleaved, {p, m, v}, t)) == (m * v + p - 1 + missing) * chunk);
        }
}

TEST_CASE("the interleaved schedule holds its warm-up and one chunk more") {
  for (const std::int64_t v : {1, 2, 3, 4})
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = p; m <= 4 * p; ++m) {
        const Played played = play(ScheduleKind::interleaved, {p, m, v}, {v, 2 * v});
        for (std::int64_t d = 0; d < p; ++d) {
          CAPTURE(p, m, v, d);
          const std::int64_t held = in_flight(played[static_cast<std::size_t>(d)], Phase::backward);
          const std::int64_t published = std::min(m * v, 2 * (p - d - 1) + (v - 1) * p + 1);
          if (m % p == 0)
            CHECK(held == published);
          else
            CHECK(held >= published);  // larger groups, and m < 2p is one group: more than the published count
          CHECK(held == std::min(m * v, 2 * (p - d - 1) + (v - 1) * interleaved_group({p, m, v}) + 1));
        }
        // Device 0 with p | m and m > p: p (1 + (p-1)/(pv)) micro-batches, in chunks (arXiv 2205.05198).
        if (m % p == 0 && m > p) CHECK(in_flight(played[0], Phase::backward) == p * v + p - 1);
      }
}

TEST_CASE("the breadth-first schedule takes as long as the interleaved one, and holds all micro-batches") {
  for (const std::int64_t v : {1, 2, 3, 4})
    for (const Ticks& grid : kGrid)
      for (std::int64_t p = 1; p <= 8; ++p)
        for (std::int64_t m = p; m <= 3 * p + 1; ++m) {
          CAPTURE(p, m, v);
          const Played played = play(ScheduleKind::breadth_first, {p, m, v}, {grid.forward * v, grid.backward * v});
          CHECK(makespan(played) == (m * v + p - 1) * (grid.forward + grid.backward));
          for (const auto& stage : played) CHECK(in_flight(stage, Phase::backward) == m * v);
        }
}

TEST_CASE("golden step times of GPipe, 1F1B, interleaved and breadth-first with latency") {
  // tF = 1, tB = 2, v = 2; in twentieths.
  struct Row {
    ScheduleShape shape;
    std::int64_t latency, gpipe, one_f_one_b, interleaved, breadth_first;
  };
  const Row rows[] = {{{4, 8, 1}, 0, 660, 660, 570, 570},       {{4, 8, 1}, 2, 672, 692, 598, 582},
                      {{4, 8, 1}, 10, 720, 820, 710, 630},      {{8, 32, 1}, 0, 2340, 2340, 2130, 2130},
                      {{8, 32, 1}, 2, 2368, 2476, 2190, 2158}, {{8, 32, 1}, 10, 2480, 3020, 2430, 2270}};
  for (const Row& r : rows) {
    const Ticks t{20, 40, 0, r.latency};
    CAPTURE(r.shape.stages, r.latency);
    CHECK(makespan(play(ScheduleKind::gpipe, r.shape, t)) == r.gpipe);
    CHECK(makespan(play(ScheduleKind::one_f_one_b, r.shape, t)) == r.one_f_one_b);
    CHECK(makespan(play(ScheduleKind::interleaved, {r.shape.stages, r.shape.micro_batches, 2}, t)) == r.interleaved);
    CHECK(makespan(play(ScheduleKind::breadth_first, {r.shape.stages, r.shape.micro_batches, 2}, t)) == r.breadth_first);
  }
}

TEST_CASE("ZB-H1 takes m(tF+tB+tW) + (p-1)(tF+tB-tW) and a weight more for every micro-batch that is missing") {
  for (const Ticks& t : kSplit)
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 4 * p; ++m) {
        CAPTURE(p, m, t.forward, t.backward, t.weight);
        const std::int64_t ideal = m * (t.forward + t.backward + t.weight);
        const std::int64_t bubble = (p - 1) * (t.forward + t.backward - t.weight);
        const Played played = play(ScheduleKind::zb_h1, {p, m}, t);
        CHECK(makespan(played) == ideal + bubble + std::max<std::int64_t>(0, p - m) * t.weight);
        for (const auto& stage : played) CHECK(in_flight(stage, Phase::weight) == std::min(m, p));
      }
}

TEST_CASE("ZB-H2 idles (p-s-1)(tF+tB-2tW) within a stage's span if there are 2p-1 micro-batches") {
  for (const Ticks& t : kSplit)
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 4 * p; ++m) {
        CAPTURE(p, m, t.forward, t.backward, t.weight);
        const std::int64_t bubble = t.forward + t.backward - 2 * t.weight;
        const Played played = play(ScheduleKind::zb_h2, {p, m}, t);
        std::int64_t longest = 0;
        for (std::size_t s = 0; s < played.size(); ++s) {
          longest = std::max(longest, idle(played[s]));
          CHECK(in_flight(played[s], Phase::weight) == std::min(m, 2 * p - 1));
          if (m >= 2 * p - 1) CHECK(idle(played[s]) == (p - static_cast<std::int64_t>(s) - 1) * bubble);
        }
        CHECK(longest == (p - 1) * bubble + std::max<std::int64_t>(0, 2 * p - 1 - m) * t.weight);
      }
}

TEST_CASE("the closed forms of the zero-bubble schedules need weights no longer than the other passes") {
  const Ticks long_weight{1, 2, 3};
  CHECK(makespan(play(ScheduleKind::zb_h1, {4, 8}, long_weight)) > 8 * 6 + 3 * (1 + 2 - 3));
  CHECK(idle(play(ScheduleKind::zb_h2, {4, 8}, long_weight)[0]) > 3 * (1 + 2 - 6));
}

namespace {

/// Every pass of every micro-batch takes its own random time.
class UnevenMachine {
 public:
  UnevenMachine(const ScheduleShape& shape, std::mt19937& random)
      : machine_{shape.stages, shape.chunks, static_cast<std::int64_t>(random() % 9), {}, shape.folded},
        ticks_(static_cast<std::size_t>(3 * machine_.parts() * shape.micro_batches)) {
    for (auto& t : ticks_) t = 1 + static_cast<std::int64_t>(random() % 20);
    machine_.time = [this](std::int64_t s, const Action& a) {
      const std::int64_t part = machine_.part(s, a);
      return at(a.phase, part, a.micro_batch) + (a.whole ? at(Phase::weight, part, a.micro_batch) : 0);
    };
  }
  UnevenMachine(const UnevenMachine&) = delete;

  const Machine& machine() const { return machine_; }
  void lengthen(std::size_t pass) { ticks_[pass % ticks_.size()] += 10; }
  std::int64_t at(Phase phase, std::int64_t part, std::int64_t micro_batch) const {
    return ticks_[static_cast<std::size_t>((micro_batch * machine_.parts() + part) * 3) + kind(phase)];
  }
  /// From the first forward of a micro-batch to its last backward, and weight where there are weights.
  std::int64_t path(std::int64_t micro_batch, bool weights) const {
    std::int64_t path = 0;
    for (std::int64_t k = 0; k < machine_.parts(); ++k) {
      path += at(Phase::forward, k, micro_batch) + at(Phase::backward, k, micro_batch);
      if (machine_.sends_on(k)) path += 2 * machine_.latency;
    }
    return path + (weights ? at(Phase::weight, 0, micro_batch) : 0);
  }

 private:
  Machine machine_;
  std::vector<std::int64_t> ticks_;
};

}  // namespace

TEST_CASE("no order ends before its critical path or its busiest stage, or earlier when a pass takes longer") {
  std::mt19937 random(20);
  for_every_shape([&](ScheduleKind kind, const ScheduleShape& shape) {
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
    const Orders orders = orders_of(kind, shape);
    UnevenMachine uneven(shape, random);
    const auto played = list_schedule(orders, uneven.machine());
    REQUIRE(played);
    const std::int64_t end = makespan(*played);
    for (std::int64_t i = 0; i < shape.micro_batches; ++i) CHECK(end >= uneven.path(i, splits_backwards(kind)));
    for (const auto& stage : *played) CHECK(end >= busy(stage));
    uneven.lengthen(random());
    CHECK(makespan(*list_schedule(orders, uneven.machine())) >= end);
  });
}

TEST_CASE("a thousand micro-batches on 64 stages have every action and every transfer") {
  const auto events = [](ScheduleKind kind, std::int64_t chunks) {
    std::size_t n = 0;
    for (int s = 0; s < 64; ++s) n += make_events(kind, {64, 1000, chunks}, StageId(s)).size();
    return n;
  };
  // Passes, and a receive, a send and a release for every edge between parts of the model, each way.
  CHECK(events(ScheduleKind::zb_h2, 1) == 64 * 3000 + 3 * 2000 * 63);
  CHECK(events(ScheduleKind::interleaved, 4) == 64 * 8000 + 3 * 2000 * 255);
}
