#include "reports/compare/rank_differences.hpp"

#include "reports/compare/compare.hpp"
#include "reports/compare/judgement.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;
using fixture::ns;

namespace {

using Ranks = std::vector<std::int32_t>;

/// Stage 0 on ranks 0 to 3 computes for 20 of 100 ns, stage 1 on ranks 4 to 7 for 30.
SavedTimeline even() { return saved(fixture::timeline(Performer::simulated, 4), fixture::graph()); }

/// Rank 2 multiplies for 30 ns, the others of its stage for 20. Its reduction begins later, theirs waits for it.
SavedTimeline with_slow_rank() {
  SavedTimeline t = even();
  SavedLane slow = t.lanes[0];
  slow.ranks = {2};
  t.lanes[0].ranks = {0, 1, 3};
  slow.spans[0].ended = ns(30);
  t.lanes.insert(t.lanes.begin() + 1, slow);
  return t;
}

}  // namespace

TEST_CASE("a slow rank stands first, and its neighbours only where they computed otherwise") {
  const std::vector<RankDifference> all = rank_differences(with_slow_rank(), even());
  REQUIRE(all.size() == 3);
  CHECK(all[0].ranks == Ranks{2});
  CHECK(all[0].first == ns(30));
  CHECK(all[0].second == ns(20));
  CHECK(all[1].ranks == Ranks{0, 1, 3});
  CHECK(all[2].ranks == Ranks{4, 5, 6, 7});
  CHECK(all[2].first == all[2].second);
}

TEST_CASE("roles are split as finely as in either timeline") {
  const std::vector<RankDifference> all = rank_differences(even(), with_slow_rank());
  REQUIRE(all.size() == 3);
  CHECK(all[0].ranks == Ranks{2});
  CHECK(all[0].first_lane == 0);
  CHECK(all[0].second_lane == 1);
}

TEST_CASE("overlapping computations of a rank count once") {
  SavedTimeline t = even();
  t.lanes[0].spans.push_back(t.lanes[0].spans[0]);  // from 0 to 20 ns
  t.lanes[0].spans.back().started = ns(10);
  t.lanes[0].spans.back().ended = ns(25);
  CHECK(rank_differences(t, even())[0].first == ns(25));
}

TEST_CASE("a comparison names the ranks that compute for another time") {
  const Comparison c = compare(with_slow_rank(), even());
  REQUIRE(c.ranks.size() == 1);
  CHECK(c.ranks[0].what == "rank 2");
  CHECK(c.ranks[0].error == Approx(0.5));
  CHECK(c.ranks[0].share == Approx(0.1));
  CHECK_THAT(to_text(c, {}), Catch::Contains("by rank, time that it computes") && Catch::Contains("rank 2 "));
  CHECK(compare(even(), even()).ranks.empty());
}
