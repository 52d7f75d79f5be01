#include "reports/page/timeline_boxes.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;

namespace {

std::size_t count(const BoxedTimeline& t) {
  std::size_t n = 0;
  for (const BoxedLane& lane : t.lanes)
    for (const BoxedStream& s : lane.streams) n += s.boxes.size();
  return n;
}

}  // namespace

TEST_CASE("Every task of a short timeline is a box of its own stream, at its own time") {
  const Timeline timeline = fixture::timeline(Performer::simulated, 1);
  const BoxedTimeline t = boxes(timeline, fixture::graph(), {0}, 1000);
  REQUIRE_FALSE(t.merged);
  REQUIRE(t.lanes.size() == 1);
  CHECK(count(t) == timeline.lanes[0].spans.size());
  const BoxedStream* reduce = nullptr;
  for (const BoxedStream& s : t.lanes[0].streams)
    if (s.stream == Stream::tensor) reduce = &s;
  REQUIRE(reduce != nullptr);
  REQUIRE(reduce->boxes.size() == 1);
  CHECK(t.tasks.at(static_cast<std::size_t>(reduce->boxes[0].task)) == "first: reduce");
  CHECK(reduce->boxes[0].from == 25);  // nanoseconds: started, not ready
  CHECK(reduce->boxes[0].to == 35);
  CHECK(reduce->boxes[0].micro_batch == 0);
}

TEST_CASE("In a long timeline neighbours of one pass of a micro-batch are one box, others are not") {
  Timeline timeline = fixture::timeline(Performer::simulated, 1);
  timeline.step_time = Duration::nanoseconds(4000 * 10);  // boxes up to 10 ns apart are neighbours
  const auto span = [](std::uint16_t task, std::int64_t from, std::int64_t to) {
    return Span{0, task, {}, {}, Duration::nanoseconds(from), Duration::nanoseconds(to)};
  };
  timeline.lanes[0].spans = {span(0, 0, 100), span(0, 105, 200), span(0, 300, 400)};
  const BoxedTimeline t = boxes(timeline, fixture::graph(), {0}, 2);
  REQUIRE(t.merged);
  REQUIRE(count(t) == 2);
  const std::vector<Box>& drawn = t.lanes[0].streams[0].boxes;
  CHECK(drawn[0].from == 0);
  CHECK(drawn[0].to == 200);
  CHECK(drawn[1].from == 300);
  CHECK(boxes(timeline, fixture::graph(), {0}, 3).merged == false);
}

TEST_CASE("Lanes are picked evenly, with the wanted ones among them") {
  CHECK(picked_lanes(3, 16, {}) == std::vector<std::size_t>{0, 1, 2});
  CHECK(picked_lanes(0, 16, {}).empty());
  CHECK(picked_lanes(5, 1, {}) == std::vector<std::size_t>{0});
  const auto some = picked_lanes(100, 4, {57, 99});
  CHECK(some.size() == 4);
  for (std::size_t wanted : {std::size_t{57}, std::size_t{99}, std::size_t{0}})
    CHECK(std::find(some.begin(), some.end(), wanted) != some.end());
}

TEST_CASE("A span that lies in no program is a broken promise") {
  Timeline timeline = fixture::timeline(Performer::simulated, 1);
  timeline.lanes[0].spans[0].instance = 99;
  CHECK_THROWS_AS(boxes(timeline, fixture::graph(), {0}, 10), ContractError);
}
