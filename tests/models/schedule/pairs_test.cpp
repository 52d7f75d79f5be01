// Forward and backward passes that run at once (ScheduleShape::pairs).

#include <algorithm>
#include <string>
#include <vector>

#include "models/schedule/schedule.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

using Kind = ScheduleEvent::Kind;

/// Every shape up to six stages, eight micro-batches and three chunks that a plan may have.
template <class F>
void for_every_pair_shape(F&& f) {
  for (std::int64_t p = 1; p <= 6; ++p)
    for (std::int64_t m = 1; m <= 8; ++m) {
      ScheduleShape shape{p, m};
      shape.pairs = true;
      f(ScheduleKind::one_f_one_b, shape);
      for (shape.chunks = 1; shape.chunks <= 3 && p > 1 && m >= p; ++shape.chunks)
        for (const bool exchanges : {false, true}) {
          shape.exchanges = exchanges;
          f(ScheduleKind::interleaved, shape);
        }
    }
}

std::vector<Action> computed(const std::vector<ScheduleEvent>& events) {
  std::vector<Action> out;
  for (const ScheduleEvent& e : events)
    if (e.kind == Kind::compute) out.push_back(e.action);
  return out;
}

}  // namespace

TEST_CASE("passes that run at once need nothing of each other and stand side by side") {
  for_every_pair_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    CAPTURE(std::string(name(kind)), shape.stages, shape.micro_batches, shape.chunks, shape.exchanges);
    for (std::int32_t s = 0; s < shape.stages; ++s) {
      const auto events = make_events(kind, shape, StageId(s));
      CHECK(computed(events) == make_schedule(kind, shape, StageId(s)));
      std::int64_t pairs = 0;
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (!events[i].with_next) continue;
        ++pairs;
        REQUIRE(i + 1 < events.size());
        const Action &forward = events[i].action, &backward = events[i + 1].action;
        CHECK((events[i].kind == Kind::compute && forward.phase == Phase::forward));
        CHECK((events[i + 1].kind == Kind::compute && backward.phase == Phase::backward));
        CHECK_FALSE((forward.micro_batch == backward.micro_batch && forward.chunk == backward.chunk));
      }
      CHECK(pairs == shape.micro_batches * shape.chunks - warmup(kind, shape, StageId(s)));
    }
  });
}

TEST_CASE("no schedule of pairs hangs, whoever issues its transfers") {
  for_every_pair_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    if (shape.exchanges) return;  // tests/models/lowering/lowering_deadlock_test.cpp
    CAPTURE(std::string(name(kind)), shape.stages, shape.micro_batches, shape.chunks);
    const Issues issues = make_events(kind, shape);
    for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host})
      CHECK(Rendezvous(issues, even_machine(shape, {}), host).play());
  });
}

TEST_CASE("a step of pairs takes as long as one of single passes") {
  // A forward pass takes one tick and a backward pass two, so that 1F1B takes three for each of m + p - 1 turns.
  ScheduleShape shape{4, 16};
  shape.pairs = true;
  const Issues issues = make_events(ScheduleKind::one_f_one_b, shape);
  const auto played = Rendezvous(issues, even_machine(shape, {}), IssuedBy::launching_host).play();
  REQUIRE(played);
  std::int64_t end = 0;
  for (const auto& stage : *played) end = std::max(end, stage.back().end);
  CHECK(end == 3 * (16 + 3));
}
