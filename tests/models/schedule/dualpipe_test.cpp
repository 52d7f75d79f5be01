// DualPipeV: the published figure, its bubble, what is held, and the V in which chunks lie.
#include "models/schedule/dualpipe.hpp"

#include <string>

#include "models/schedule/zero_bubble.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

ScheduleShape vee(std::int64_t p, std::int64_t m, bool pairs = false) {
  ScheduleShape s{p, m, 2};
  s.folded = true;
  s.pairs = pairs;
  return s;
}

/// "F0" forward, "B0" whole backward, "b0" of inputs alone, "W0" of weights; chunk 1 as in "F0'"; of a pair "F0&B0".
std::string text(const std::vector<ScheduleEvent>& events) {
  std::string s;
  for (const ScheduleEvent& e : events) {
    if (e.kind != ScheduleEvent::Kind::compute) continue;
    const Action& a = e.action;
    s += a.phase == Phase::forward ? "F" : a.phase == Phase::weight ? "W" : a.whole ? "B" : "b";
    s += std::to_string(a.micro_batch) + (a.chunk == 1 ? "'" : "") + (e.with_next ? "&" : " ");
  }
  return s;
}

/// Times of a chunk's passes; a pair's is not the sum of its passes.
struct Passes {
  std::int64_t forward = 1, backward = 1, weight = 1, pair = 3;
  std::int64_t whole() const { return backward + weight; }
};

/// What a stage issues, played apart from models/schedule: transfers take nothing, and a pass may need what the V's turn hands on.
class Player {
 public:
  Player(const std::vector<std::vector<ScheduleEvent>>& events, const Passes& t)
      : p_(static_cast<std::int64_t>(events.size())), t_(t), ends_(2 * p_), events_(events), next_(events.size()),
        free_(events.size()), busy_(events.size()) {}

  /// By stage: idle ticks before the end of the last pass of all.
  std::vector<std::int64_t> idle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < events_.size(); ++s)
        while (step(s)) moved = true;
    }
    std::int64_t end = 0;
    for (std::size_t s = 0; s < events_.size(); ++s) {
      REQUIRE(next_[s] == events_[s].size());
      end = std::max(end, free_[s]);
    }
    std::vector<std::int64_t> out;
    for (const std::int64_t b : busy_) out.push_back(end - b);
    return out;
  }

 private:
  bool step(std::size_t s) {
    std::size_t& i = next_[s];
    while (i < events_[s].size() && events_[s][i].kind != ScheduleEvent::Kind::compute) ++i;
    if (i == events_[s].size()) return false;
    const bool pair = events_[s][i].with_next;
    std::int64_t start = free_[s];
    for (std::size_t k = i; k <= i + (pair ? 1 : 0); ++k) {
      const std::int64_t r = ready(static_cast<std::int64_t>(s), events_[s][k].action);
      if (r < 0) return false;
      start = std::max(start, r);
    }
    const std::int64_t time = pair ? t_.pair : of(events_[s][i].action);
    free_[s] = start + time;
    busy_[s] += time;
    for (const std::size_t last = i + (pair ? 1 : 0); i <= last; ++i) {
      const Action& a = events_[s][i].action;
      ends_.at(a.phase, a.micro_batch, part(static_cast<std::int64_t>(s), a)) = free_[s];
    }
    return true;
  }
  std::int64_t part(std::int64_t s, const Action& a) const { return a.chunk == 0 ? s : 2 * p_ - 1 - s; }
  std::int64_t of(const Action& a) const {
    if (a.phase == Phase::forward) return t_.forward;
    return a.phase == Phase::weight ? t_.weight : a.whole ? t_.whole() : t_.backward;
  }
  std::int64_t ready(std::int64_t s, const Action& a) {
    const std::int64_t k = part(s, a);
    if (a.phase == Phase::weight) return ends_.at(Phase::backward, a.micro_batch, k);
    if (a.phase == Phase::forward) return k == 0 ? 0 : ends_.at(Phase::forward, a.micro_batch, k - 1);
    const std::int64_t own = ends_.at(Phase::forward, a.micro_batch, k);
    const std::int64_t behind = k == 2 * p_ - 1 ? 0 : ends_.at(Phase::backward, a.micro_batch, k + 1);
    return std::min(own, behind) < 0 ? -1 : std::max(own, behind);
  }

  std::int64_t p_;
  Passes t_;
  Ends ends_;
  std::vector<std::vector<ScheduleEvent>> events_;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> free_, busy_;
};

}  // namespace

TEST_CASE("DualPipeV does the passes of its published figure, in pairs where that has pairs") {
  // deepseek-ai/DualPipe: images/dualpipev.png, four devices and ten micro-batches.
  const auto events = make_events(ScheduleKind::dualpipe_v, vee(4, 10, true));
  CHECK(text(events[0]) ==
        "F0 F1 F2 F3 F4 F5 F6 F0' b0' W0' F1' b1' W1' F2' b2' W2' F3' F7&B3' F4'&B0 F8&B4' F5'&B1 F9&B5' F6'&B2 B6' F7'&B3 B7' F8'&B4 "
        "B8' F9'&B5 B9' b6 W6 b7 W7 b8 W8 b9 W9 ");
  CHECK(text(events[1]) ==
        "F0 F1 F2 F3 F4 F0' F5 F1' b0' W0' F2' b1' W1' F3' F6&B2' F4'&B0 F7&B3' F5'&B1 F8&B4' F6'&B2 F9&B5' F7'&B3 B6' F8'&B4 B7' "
        "F9'&B5 B8' B6 b9' b7 W9' b8 W7 b9 W8 W9 ");
  CHECK(text(events[2]) ==
        "F0 F1 F2 F0' F3 F1' F4 F2' b0' W0' F3' F5&B1' F4'&B0 F6&B2' F5'&B1 F7&B3' F6'&B2 F8&B4' F7'&B3 F9&B5' F8'&B4 B6' F9'&B5 B7' B6 "
        "B8' b7 b9' b8 W7 b9 W9' W8 W9 ");
  CHECK(text(events[3]) ==
        "F0 F0' F1 F1' F2 F2' F3 F3' F4 B0' F4'&B0 F5&B1' F5'&B1 F6&B2' F6'&B2 F7&B3' F7'&B3 F8&B4' F8'&B4 F9&B5' F9'&B5 B6' B6 B7' B7 "
        "b8' b8 b9' b9 W8' W8 W9' W9 ");
}

TEST_CASE("DualPipeV's bubble is the published (PP/2-1)(F&B + B - 3W), whatever a pair hides") {
  // If weight passes take no longer than the others, no device idles longer than this, and the last one idles exactly this long.
  for (const Passes& t : {Passes{1, 1, 1, 3}, Passes{2, 2, 1, 5}, Passes{4, 4, 4, 10}, Passes{4, 4, 2, 7}})
    for (std::int64_t p = 2; p <= 8; ++p)
      for (const std::int64_t m : {2 * p, 2 * p + 1, 3 * p, 5 * p}) {
        CAPTURE(p, m, t.forward, t.backward, t.weight, t.pair);
        const auto events = make_events(ScheduleKind::dualpipe_v, vee(p, m, true));
        const auto idle = Player(events, t).idle();
        const std::int64_t published = (2 * p / 2 - 1) * (t.pair + t.whole() - 3 * t.weight);
        CHECK(*std::max_element(idle.begin(), idle.end()) == published);
        CHECK(idle.back() == published);
      }
}

TEST_CASE("DualPipeV whose passes do not overlap has the same pairs, so it idles (PP/2-1)(F + B + B - 3W)") {
  // deepseek-ai/DualPipe: dualpipe/dualpipev.py, _forward_backward_chunk sends both outputs after both passes
  for (Passes t : {Passes{1, 1, 1}, Passes{2, 2, 1}, Passes{4, 4, 4}, Passes{4, 4, 2}})
    for (std::int64_t p = 2; p <= 8; ++p)
      for (const std::int64_t m : {2 * p, 2 * p + 1, 5 * p}) {
        CAPTURE(p, m, t.forward, t.backward, t.weight);
        t.pair = t.forward + t.whole();
        const auto idle = Player(make_events(ScheduleKind::dualpipe_v, vee(p, m)), t).idle();
        CHECK(*std::max_element(idle.begin(), idle.end()) == (p - 1) * (t.forward + 2 * t.whole() - 3 * t.weight));
      }
}

TEST_CASE("DualPipeV receives both inputs before a pair and sends both outputs after it, whether its passes overlap or not") {
  for (const bool pairs : {false, true})
    for (std::int64_t p = 2; p <= 6; ++p)
      for (const auto& stage : make_events(ScheduleKind::dualpipe_v, vee(p, 3 * p + 1, pairs))) {
        std::int64_t found = 0;
        for (std::size_t i = 0; i < stage.size(); ++i) {
          if (!stage[i].with_next) continue;
          ++found;
          REQUIRE(i + 1 < stage.size());
          CHECK((stage[i].kind == ScheduleEvent::Kind::compute && stage[i].action.phase == Phase::forward));
          CHECK((stage[i + 1].kind == ScheduleEvent::Kind::compute && stage[i + 1].action.phase == Phase::backward));
          for (std::size_t k = 0; k < stage.size(); ++k)
            for (Action a : {stage[i].action, stage[i + 1].action}) {
              a.whole = false;  // unused in transfers
              if (stage[k].action != a) continue;
              if (stage[k].kind == ScheduleEvent::Kind::receive) CHECK(k < i);
              if (stage[k].kind == ScheduleEvent::Kind::send) CHECK(k > i + 1);
            }
        }
        CHECK(found > 0);
      }
}

TEST_CASE("DualPipeV holds PP+1 chunks on every device, until their backward and until their weights") {
  for (std::int64_t p = 2; p <= 8; ++p)
    for (const std::int64_t m : {2 * p, 3 * p + 1})
      for (std::int32_t s = 0; s < p; ++s) {
        CAPTURE(p, m, s);
        std::int64_t before = 0, until = 0, most_before = 0, most_until = 0;
        for (const Action& a : make_schedule(ScheduleKind::dualpipe_v, vee(p, m), StageId(s))) {
          if (a.phase == Phase::forward) most_before = std::max(most_before, ++before), most_until = std::max(most_until, ++until);
          if (a.phase == Phase::backward) --before;
          if (a.phase == Phase::weight || a.whole) --until;
        }
        CHECK(most_before == 2 * p + 1);
        CHECK(most_until == 2 * p + 1);
        CHECK(std::pair(before, until) == std::pair(std::int64_t{0}, std::int64_t{0}));
      }
}

TEST_CASE("a V turns on the last stage and ends on the first, and its way back is the way there") {
  const ScheduleShape shape = vee(3, 6);
  const auto f = [](std::int32_t chunk) { return Action{Phase::forward, 1, chunk}; };
  const auto b = [](std::int32_t chunk) { return Action{Phase::backward, 1, chunk}; };
  CHECK(output_to(shape, StageId(0), f(0)) == Neighbour{1, f(0)});
  CHECK(input_from(shape, StageId(1), f(1)) == Neighbour{1, f(1)});
  CHECK(output_to(shape, StageId(1), f(1)) == Neighbour{-1, f(1)});
  CHECK(output_to(shape, StageId(0), b(1)) == Neighbour{1, b(1)});
  CHECK(input_from(shape, StageId(0), b(0)) == Neighbour{1, b(0)});
  for (const auto& [stage, action] : {std::pair(2, f(0)), std::pair(0, f(1)), std::pair(2, b(1)), std::pair(0, b(0))})
    CHECK_FALSE(output_to(shape, StageId(stage), action));
  for (const auto& [stage, action] : {std::pair(0, f(0)), std::pair(2, f(1)), std::pair(0, b(1)), std::pair(2, b(0))})
    CHECK_FALSE(input_from(shape, StageId(stage), action));
  for (std::int64_t part = 0; part < 6; ++part)
    CHECK(stage_of_part(ScheduleKind::dualpipe_v, 3, part) == (part < 3 ? part : 5 - part));
}

TEST_CASE("DualPipeV deadlocks nowhere with rendezvous, alone or in pairs, forward alone, or with passes of any length") {
  const std::pair<PassCosts, std::int32_t> lengths[] = {{{}, 0}, {{20, 32, 14, 2, 32}, 3}, {{1, 1, 1}, 9}};
  for (std::int64_t p = 2; p <= 7; ++p)
    for (const std::int64_t m : {2 * p, 2 * p + 1, 2 * p + 3, 4 * p})
      for (const bool pairs : {false, true})
        for (const auto& [costs, transfer] : lengths) {
          CAPTURE(p, m, pairs, transfer);
          ScheduleShape shape = vee(p, m, pairs);
          shape.costs.assign(static_cast<std::size_t>(p), costs);
          shape.transfer = transfer;
          const Issues issues = make_events(ScheduleKind::dualpipe_v, shape);
          Issues forward;
          for (std::int32_t s = 0; s < p; ++s)
            forward.push_back(make_forward_events(ScheduleKind::dualpipe_v, shape, StageId(s)));
          for (const std::int64_t latency : {0, 1, 7})
            for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host}) {
              const Machine machine = even_machine(shape, {6, 6, 4, latency});
              CHECK(Rendezvous(issues, machine, host).play());
              CHECK(Rendezvous(forward, machine, host).play());
            }
        }
}

TEST_CASE("a V of other chunks, of too few micro-batches or of another schedule is a broken promise") {
  const auto make = [](ScheduleKind kind, const ScheduleShape& shape) { return make_schedule(kind, shape, StageId(0)); };
  CHECK_THROWS_AS(make(ScheduleKind::dualpipe_v, vee(3, 5)), ContractError);
  CHECK_THROWS_AS(make(ScheduleKind::dualpipe_v, {3, 6, 2}), ContractError);
  CHECK_THROWS_AS(make(ScheduleKind::interleaved, vee(3, 6)), ContractError);
  ScheduleShape three = vee(3, 6);
  three.chunks = 3;
  CHECK_THROWS_AS(make(ScheduleKind::dualpipe_v, three), ContractError);
  CHECK_NOTHROW(make(ScheduleKind::dualpipe_v, vee(3, 6)));
}
