#include "models/schedule.hpp"

#include "tests/catch.hpp"

using namespace tandem;

namespace {

std::string text(const std::vector<Action>& actions) {
  std::string s;
  for (const Action& a : actions) s += (a.phase == Phase::forward ? "F" : "B") + std::to_string(a.micro_batch) + " ";
  return s;
}
std::string one_f_one_b(std::int64_t stages, std::int64_t micro_batches, std::int32_t stage) {
  return text(make_schedule(ScheduleKind::one_f_one_b, {stages, micro_batches}, StageId(stage)));
}

}  // namespace

TEST_CASE("1F1B warms up, alternates and drains as published") {
  // Figure 4 (top) of arXiv 2104.04473, four stages and eight micro-batches, first, third and last stage.
  CHECK(one_f_one_b(4, 8, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
  CHECK(one_f_one_b(4, 8, 2) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7 ");
  CHECK(one_f_one_b(4, 8, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ");
}

TEST_CASE("1F1B with fewer micro-batches than stages still does every pass once") {
  CHECK(one_f_one_b(4, 2, 0) == "F0 F1 B0 B1 ");
  CHECK(one_f_one_b(4, 1, 1) == "F0 B0 ");
}

TEST_CASE("1F1B never holds more micro-batches than stages behind it") {
  const auto stages = GENERATE(1, 2, 3, 8);
  const auto micro_batches = GENERATE(1, 2, 5, 16);
  for (int stage = 0; stage < stages; ++stage) {
    int held = 0, most = 0;
    for (const Action& a : make_schedule(ScheduleKind::one_f_one_b, {stages, micro_batches}, StageId(stage)))
      most = std::max(most, held += a.phase == Phase::forward ? 1 : -1);
    CHECK(held == 0);
    CHECK(most == std::min(micro_batches, stages - stage));
  }
}

TEST_CASE("GPipe does all forwards, then all backwards in the same order, on every stage") {
  for (int stage = 0; stage < 3; ++stage)
    CHECK(text(make_schedule(ScheduleKind::gpipe, {3, 4}, StageId(stage))) == "F0 F1 F2 F3 B0 B1 B2 B3 ");
}

TEST_CASE("a schedule that is not lowered is refused by field") {
  const auto kind = GENERATE(ScheduleKind::interleaved, ScheduleKind::zb_h1, ScheduleKind::zb_h2);
  REQUIRE_THROWS_AS(make_schedule(kind, {2, 2}, StageId(0)), InfeasibleError);
  CHECK(make_schedule(kind, {1, 4}, StageId(0)) == make_schedule(ScheduleKind::one_f_one_b, {1, 4}, StageId(0)));
}
