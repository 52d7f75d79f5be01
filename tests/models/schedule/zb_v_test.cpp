// ZB-V: PyTorch's order, the published bubble and memory, and no deadlock.
#include "models/schedule/zb_v.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/models/schedule/action_text.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr ScheduleKind kKind = ScheduleKind::zb_v;

std::string order(std::int64_t p, std::int64_t m, std::int32_t stage) {
  return text(make_schedule(kKind, folded_shape(p, m), StageId(stage)));
}

/// PyTorch's loops (torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble, v2.6), which count passes instead of turns.
std::string pytorch(int p, int m, int rank) {
  const int n = std::max(2 * p - 1, m);
  std::string s;
  int f[2]{}, b[2]{}, w[2]{};
  const auto add = [&](char pass, int chunk) {
    int& next = (pass == 'F' ? f : pass == 'B' ? b : w)[chunk];
    if (next < m) s += pass + std::to_string(next) + (chunk == 1 ? "' " : " ");
    ++next;
  };
  for (int i = 0; i < 2 * (p - rank) - 1; ++i) add('F', 0);
  for (int i = 0; i < rank; ++i) add('F', 1), add('F', 0);
  for (int i = 0; i < p - rank; ++i) add('F', 1), add('B', 1), add('W', 1);
  while (f[1] < f[0] || f[0] < n) {
    if (f[0] < n) add('F', 0);
    add('B', 0), add('W', 0), add('F', 1), add('B', 1), add('W', 1);
  }
  for (int i = 0; i < rank; ++i) add('B', 0), add('B', 1);
  for (int i = 0; i < p - rank; ++i) add('B', 0), add('W', 0);
  while (w[1] < b[1]) add('W', 1);
  while (w[0] < b[0]) add('W', 0);
  return s;
}

std::int64_t idle(const std::vector<Span>& stage) {
  std::int64_t work = 0;
  for (const Span& s : stage) work += s.end - s.start;
  return stage.back().end - stage.front().start - work;
}

/// Most chunks between their forward pass and their pass `until`, counted by the times at which these begin and end.
std::int64_t held(const std::vector<Span>& stage, Phase until) {
  std::int64_t now = 0, most = 0;
  for (const Span& s : stage) {
    if (s.action.phase == Phase::forward) most = std::max(most, ++now);
    if (s.action.phase == until) --now;
  }
  return most;
}

/// As ticks of a chunk.
Played play(std::int64_t p, std::int64_t m, const Ticks& t) {
  return tests::play(kKind, folded_shape(p, m), {2 * t.forward, 2 * t.backward, 2 * t.weight, 0});
}

}  // namespace

TEST_CASE("ZB-V does the passes of PyTorch's ScheduleZBVZeroBubble in its order") {
  CHECK(order(3, 3, 0) == "F0 F1 F2 F0' B0' W0' F1' B1' W1' F2' B2' W2' B0 W0 B1 W1 B2 W2 ");
  CHECK(order(3, 3, 2) == "F0 F0' F1 F1' F2 F2' B0' W0' B0 W0 B1' W1' B1 W1 B2' W2' B2 W2 ");
  CHECK(order(4, 8, 0) ==
        "F0 F1 F2 F3 F4 F5 F6 F0' B0' W0' F1' B1' W1' F2' B2' W2' F3' B3' W3' F7 B0 W0 F4' B4' W4' B1 W1 F5' B5' W5' B2 W2 F6' B6' W6' B3 "
        "W3 F7' B7' W7' B4 W4 B5 W5 B6 W6 B7 W7 ");
  CHECK(order(4, 8, 3) ==
        "F0 F0' F1 F1' F2 F2' F3 F3' B0' W0' F4 B0 W0 F4' B1' W1' F5 B1 W1 F5' B2' W2' F6 B2 W2 F6' B3' W3' F7 B3 W3 F7' B4' W4' B4 B5' B5 "
        "B6' B6 B7' B7 W4 W5' W6' W7' W5 W6 W7 ");
  for (int p = 1; p <= 9; ++p)
    for (int m = 1; m <= 4 * p; ++m)
      for (int rank = 0; rank < p; ++rank) {
        CAPTURE(p, m, rank);
        CHECK(order(p, m, rank) == pytorch(p, m, rank));
      }
}

TEST_CASE("ZB-V has no bubble where all passes take the same, and holds what the first stage of 1F1B does") {
  // arXiv 2401.10241 section 6: zero bubble for tF = tB = tW, with the memory of 1F1B: p micro-batches of a stage, which are 2p chunks.
  for (std::int64_t p = 1; p <= 12; ++p)
    for (const std::int64_t m : {2 * p - 1, 2 * p, 2 * p + 1, 5 * p}) {
      CAPTURE(p, m);
      const Played played = play(p, m, {1, 1, 1});
      CHECK(makespan(played) == 6 * m + p - 1);  // the last stage starts p-1 forward passes late
      for (const auto& stage : played) {
        CHECK(idle(stage) == 0);
        CHECK(held(stage, Phase::weight) == 2 * p);
        CHECK(held(stage, Phase::backward) <= 2 * p);
      }
    }
}

TEST_CASE("ZB-V idles (p-s-1)(tF+tB-2tW) + (p-1)(tB-tF) within a stage's span for tW <= tF <= tB and 2p-1 micro-batches") {
  for (std::int64_t forward = 1; forward <= 4; ++forward)
    for (std::int64_t backward = forward; backward <= 6; ++backward)
      for (std::int64_t weight = 1; weight <= forward; ++weight)
        for (std::int64_t p = 1; p <= 6; ++p)
          for (const std::int64_t m : {2 * p - 1, 3 * p}) {
            CAPTURE(p, m, forward, backward, weight);
            const Played played = play(p, m, {forward, backward, weight});
            for (std::int64_t s = 0; s < p; ++s)
              CHECK(idle(played[static_cast<std::size_t>(s)]) ==
                    (p - s - 1) * (forward + backward - 2 * weight) + (p - 1) * (backward - forward));
          }
  CHECK(idle(play(4, 8, {1, 1, 2})[3]) > 0);  // longer weight passes are another matter
}

TEST_CASE("ZB-V deadlocks nowhere with rendezvous, forward alone, or with passes of any length") {
  const std::pair<PassCosts, std::int32_t> lengths[] = {{{}, 0}, {{20, 32, 14, 2, 32}, 3}, {{1, 1, 1}, 9}};
  for (std::int64_t p = 2; p <= 7; ++p)
    for (const std::int64_t m : {std::int64_t{1}, p, 2 * p - 1, 2 * p + 3, 4 * p})
      for (const auto& [costs, transfer] : lengths) {
        CAPTURE(p, m, transfer);
        ScheduleShape shape = folded_shape(p, m);
        shape.costs.assign(static_cast<std::size_t>(p), costs);
        shape.transfer = transfer;
        const Issues issues = make_events(kKind, shape);
        Issues forward;
        for (std::int32_t s = 0; s < p; ++s) forward.push_back(make_forward_events(kKind, shape, StageId(s)));
        for (const std::int64_t latency : {0, 1, 7})
          for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host}) {
            const Machine machine = even_machine(shape, {6, 6, 4, latency});
            CHECK(Rendezvous(issues, machine, host).play());
            CHECK(Rendezvous(forward, machine, host).play());
          }
      }
}

TEST_CASE("no pass of ZB-V is one of a pair") {
  for (const auto& stage : make_events(kKind, folded_shape(4, 9)))
    for (const ScheduleEvent& e : stage) CHECK_FALSE((e.with_next || e.action.whole));
  ScheduleShape pairs = folded_shape(3, 6);
  pairs.pairs = true;
  CHECK_THROWS_AS(make_schedule(kKind, pairs, StageId(0)), ContractError);
  CHECK_THROWS_AS(make_schedule(kKind, {3, 6, 2}, StageId(0)), ContractError);
}
