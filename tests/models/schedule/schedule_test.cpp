// The orders themselves.
#include "models/schedule/schedule.hpp"

#include <map>

#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// "F0 B0" and so on; a chunk after the first as in "F0.1".
std::string text(const std::vector<Action>& actions) {
  std::string s;
  for (const Action& a : actions) {
    s += (a.phase == Phase::forward ? "F" : a.phase == Phase::backward ? "B" : "W") + std::to_string(a.micro_batch);
    s += (a.chunk == 0 ? "" : "." + std::to_string(a.chunk)) + " ";
  }
  return s;
}
std::string order(ScheduleKind kind, const ScheduleShape& shape, std::int32_t stage) {
  return text(make_schedule(kind, shape, StageId(stage)));
}

}  // namespace

TEST_CASE("1F1B warms up, alternates and drains as published") {
  // Figure 4 (top) of arXiv 2104.04473, four stages and eight micro-batches, first, third and last stage.
  const auto kind = ScheduleKind::one_f_one_b;
  CHECK(order(kind, {4, 8}, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
  CHECK(order(kind, {4, 8}, 2) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7 ");
  CHECK(order(kind, {4, 8}, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ");
}

TEST_CASE("1F1B with fewer micro-batches than stages still does every pass once") {
  CHECK(order(ScheduleKind::one_f_one_b, {4, 2}, 0) == "F0 F1 B0 B1 ");
  CHECK(order(ScheduleKind::one_f_one_b, {4, 1}, 1) == "F0 B0 ");
}

TEST_CASE("GPipe does all forwards, then all backwards in the same order, on every stage") {
  for (int stage = 0; stage < 3; ++stage)
    CHECK(order(ScheduleKind::gpipe, {3, 4}, stage) == "F0 F1 F2 F3 B0 B1 B2 B3 ");
}

TEST_CASE("the interleaved order is the published one") {
  // Figure 4 (bottom) of arXiv 2104.04473, four stages of two chunks and eight micro-batches, first and last stage.
  CHECK(order(ScheduleKind::interleaved, {4, 8, 2}, 0) ==
        "F0 F1 F2 F3 F0.1 F1.1 F2.1 F3.1 F4 F5 F6 B0.1 F7 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0 F7.1 B1 "
        "B2 B3 B4.1 B5.1 B6.1 B7.1 B4 B5 B6 B7 ");
  CHECK(
      order(ScheduleKind::interleaved, {4, 8, 2}, 3) ==
      "F0 F1 F2 F3 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4 B0 F5 B1 F6 B2 F7 B3 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 "
      "B7.1 B4 B5 B6 B7 ");
}

TEST_CASE("an interleaved group is the smallest that Megatron takes, and all there is when there is less") {
  CHECK(interleaved_group({4, 8, 2}) == 4);
  CHECK(interleaved_group({4, 11, 2}) == 6);  // 4 would leave 3 and 5 would leave 1
  CHECK(interleaved_group({4, 7, 2}) == 7);
  CHECK(interleaved_group({2, 5, 2}) == 3);
  CHECK(interleaved_group({4, 3, 2}) == 3);
  CHECK(interleaved_group({1, 5, 2}) == 1);
  CHECK(order(ScheduleKind::interleaved, {2, 5, 2}, 1) ==
        "F0 F1 F2 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3 B0 F4 B1 F3.1 B2 F4.1 B3.1 B4.1 B3 B4 ");
}

TEST_CASE("a zero-bubble order is that of 1F1B, or of twice its warm-up, with weights later by stage") {
  CHECK(order(ScheduleKind::zb_h1, {3, 4}, 0) == "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 ");
  CHECK(order(ScheduleKind::zb_h1, {3, 4}, 1) == "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3 ");
  CHECK(order(ScheduleKind::zb_h1, {3, 4}, 2) == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 ");
  CHECK(order(ScheduleKind::zb_h2, {2, 4}, 0) == "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 ");
  CHECK(order(ScheduleKind::zb_h2, {2, 4}, 1) == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 ");
}

TEST_CASE("a zero-bubble schedule of few micro-batches is the same rule cut short") {
  CHECK(order(ScheduleKind::zb_h2, {3, 2}, 0) == "F0 F1 B0 W0 B1 W1 ");
  CHECK(order(ScheduleKind::zb_h2, {3, 2}, 2) == "F0 B0 F1 B1 W0 W1 ");
  CHECK(order(ScheduleKind::zb_h1, {3, 1}, 2) == "F0 B0 W0 ");
}

TEST_CASE("on one stage every schedule but GPipe does a micro-batch's passes one after the other") {
  for (const auto kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
    CHECK(order(kind, {1, 3}, 0) == "F0 B0 F1 B1 F2 B2 ");
  for (const auto kind : {ScheduleKind::zb_h1, ScheduleKind::zb_h2})
    CHECK(order(kind, {1, 3}, 0) == "F0 B0 W0 F1 B1 W1 F2 B2 W2 ");
}

TEST_CASE("every pass is done exactly once and each chunk's ascend") {
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    const bool splits = splits_backwards(kind);
    const std::int64_t m = shape.micro_batches;
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<Phase, std::int32_t>, std::int32_t> next;
      bool ascending = true;
      for (const Action& a : make_schedule(kind, shape, StageId(stage))) {
        ascending = a.micro_batch == next[{a.phase, a.chunk}]++ && ascending;
        if (a.whole) ascending = a.micro_batch == next[{Phase::weight, a.chunk}]++ && ascending;
      }
      INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
      CHECK(ascending);  // 0, 1, ... m-1: neither twice nor left out
      REQUIRE(static_cast<std::int64_t>(next.size()) == shape.chunks * (splits ? 3 : 2));
      for (const auto& [pass, count] : next) CHECK(count == m);
      CHECK(next.count({Phase::weight, 0}) == (splits ? 1U : 0U));
    }
  });
}

TEST_CASE("a shape that no plan has is a broken promise") {
  const auto make = [](ScheduleKind kind, const ScheduleShape& shape, int stage) {
    return make_schedule(kind, shape, StageId(stage));
  };
  CHECK_THROWS_AS(make(ScheduleKind::one_f_one_b, {2, 2, 2}, 0), ContractError);
  CHECK_THROWS_AS(make(ScheduleKind::one_f_one_b, {2, 2}, 2), ContractError);
  CHECK_THROWS_AS(make(ScheduleKind::gpipe, {2, 2}, -1), ContractError);
  CHECK_THROWS_AS(make(ScheduleKind::gpipe, {2, 0}, 0), ContractError);
  CHECK_NOTHROW(make(ScheduleKind::interleaved, {2, 2, 2}, 1));
}
