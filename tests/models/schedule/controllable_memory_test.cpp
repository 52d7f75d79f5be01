// V-Half and V-Min: the authors' orders, their memory and bubble, and no deadlock.
#include "models/schedule/controllable_memory.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/models/schedule/action_text.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr ScheduleKind kHalf = ScheduleKind::v_half, kMin = ScheduleKind::v_min;

std::string order(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int32_t stage) {
  return text(make_schedule(kind, folded_shape(p, m), StageId(stage)));
}

/// Most chunks of any stage between their forward and their weight pass.
std::int64_t most_held(ScheduleKind kind, std::int64_t p, std::int64_t m) {
  std::int64_t most = 0;
  for (const auto& stage : make_orders(kind, folded_shape(p, m))) {
    std::int64_t now = 0;
    for (const Action& a : stage) most = std::max(most, now += a.phase == Phase::forward ? 1 : a.phase == Phase::weight ? -1 : 0);
  }
  return most;
}

/// Slots of a step that the busiest stage does not work, where every pass takes one.
std::int64_t bubble(ScheduleKind kind, std::int64_t p, std::int64_t m) {
  return makespan(tests::play(kind, folded_shape(p, m), {2, 2, 2, 0})) - 6 * m;
}

}  // namespace

TEST_CASE("V-Half and V-Min do the passes of their authors' scheduler in its order") {
  // What sail-sg/zero-bubble-pipeline-parallelism makes of its patterns: megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py.
  CHECK(order(kHalf, 2, 4, 0) == "F0 F1 F2 F0' B0' W0' F1' B0 B1' W1' F2' W0 F3 B1 B2' W2' F3' B3' B2 W3' B3 W1 W2 W3 ");
  CHECK(order(kHalf, 2, 4, 1) == "F0 F0' F1 F1' B0' W0' B0 W0 F2 F2' B1' B1 W1' F3 W1 F3' B2' B2 B3' B3 W2' W3' W2 W3 ");
  CHECK(order(kHalf, 3, 5, 1) == "F0 F1 F0' F1' B0' W0' F2 B0 B1' W1' F2' W0 F3 B1 B2' W2' F3' W1 F4 B2 B3' W3' F4' W2 B3 B4' W4' W3 B4 W4 ");
  CHECK(order(kMin, 2, 4, 0) == "F0 F1 F0' B0' W0' B0 W0 F1' B1' W1' F2 B1 W1 F2' B2' W2' F3 B2 W2 F3' B3' W3' B3 W3 ");
  CHECK(order(kMin, 3, 5, 0) == "F0 F1 F2 F0' B0' W0' F1' B0 B1' W1' W0 F2' F3 B1 B2' W2' W1 F3' F4 B2 B3' W3' W2 F4' B4' B3 W4' W3 B4 W4 ");
  CHECK(order(kMin, 3, 5, 2) == "F0 F0' F1 F1' B0' B0 W0' W0 F2 F2' B1' B1 W1' W1 F3 F3' B2' B2 W2' W2 F4 F4' B3' B3 W3' W3 B4' B4 W4' W4 ");
}

TEST_CASE("of the 2p chunks that 1F1B holds on its first stage V-Half holds p/2+1 pairs, and V-Min (p+4)/3") {
  // arXiv 2405.15362, abstract: half and a third of the memory of 1F1B, whose first stage holds p micro-batches.
  for (std::int64_t p = 2; p <= 16; ++p)
    for (const std::int64_t m : {p, 2 * p + 1, 4 * p}) {
      CAPTURE(p, m);
      CHECK(most_held(kHalf, p, m) == 2 * (p / 2 + 1));
      CHECK(most_held(kMin, p, m) == 2 * ((p + 4) / 3));
    }
}

TEST_CASE("V-Half and V-Min have the bubbles of their authors' orders, whatever the number of micro-batches") {
  struct Row {
    std::int64_t p, half, min;
  };
  constexpr Row rows[] = {{2, 1, 3}, {3, 5, 5}, {4, 5, 11}, {5, 11, 15}, {6, 11, 17}, {8, 17, 27}, {12, 29, 41}, {16, 41, 59}};
  for (const Row& r : rows) {
    for (const std::int64_t m : {2 * r.p, 4 * r.p}) {
      CAPTURE(r.p, m);
      CHECK(bubble(kHalf, r.p, m) == r.half);
      CHECK(bubble(kMin, r.p, m) == r.min);
    }
    // 1F1B with the same passes: arXiv 2104.04473 section 2.2.
    const std::int64_t one_f_one_b = 6 * (r.p - 1);
    CHECK(2 * r.half <= one_f_one_b);
    CHECK(r.min < one_f_one_b);
  }
}

TEST_CASE("V-Half and V-Min deadlock nowhere with rendezvous, forward alone, or with passes of any length") {
  const auto kind = GENERATE(kHalf, kMin);
  const std::pair<PassCosts, std::int32_t> lengths[] = {{{}, 0}, {{20, 32, 14, 2, 32}, 3}, {{1, 1, 1}, 9}};
  for (std::int64_t p = 2; p <= 7; ++p)
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{2}, p, 2 * p + 3})
      for (const auto& [costs, transfer] : lengths) {
        CAPTURE(name(kind), p, m, transfer);
        ScheduleShape shape = folded_shape(p, m);
        shape.costs.assign(static_cast<std::size_t>(p), costs);
        shape.transfer = transfer;
        const Issues issues = make_events(kind, shape);
        Issues forward;
        for (std::int32_t s = 0; s < p; ++s) forward.push_back(make_forward_events(kind, shape, StageId(s)));
        for (const std::int64_t latency : {0, 7})
          for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host}) {
            const Machine machine = even_machine(shape, {6, 6, 4, latency});
            CHECK(Rendezvous(issues, machine, host).play());
            CHECK(Rendezvous(forward, machine, host).play());
          }
      }
}

TEST_CASE("a thousand micro-batches on 32 stages have every pass of V-Half") {
  const Orders orders = make_orders(kHalf, folded_shape(32, 1000));
  for (const auto& stage : orders) CHECK(stage.size() == 6000);
}
