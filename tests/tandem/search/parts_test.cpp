// Searches in several parts, stopped or continued, and knowledge that is wrong.

#include <algorithm>
#include <utility>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/search/kept.hpp"
#include "experiments/tandem/search/pareto.hpp"
#include "experiments/tandem/search/report.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

/// What a whole search prints, going on from `known`.
std::string text_after(const Space& space, SearchOptions o, Knowledge known = {}) {
  Search search(space, std::move(o));
  search.take(std::move(known));
  search.explore();
  return to_json(search, search.answer(), {});
}

/// Explores a search of either kind. Returns what became of its candidates, and its rows.
std::pair<Counts, std::vector<CandidateId>> explored(Search& search, Kind kind) {
  Answer answer;
  if (kind == Kind::front) answer = search.answer_from(explore_front(search).simulated, kNoLimit);
  else search.explore(), answer = search.answer();
  std::vector<CandidateId> rows;
  for (const Simulated& s : answer.best) rows.push_back(s.id);
  return {answer.counts, rows};
}

}  // namespace

TEST_CASE("Shards put together answer as one search does, on any number of threads") {
  const Space space = space_of(small_spaces().front());
  for (const std::int64_t events : {500, 5}) {
    SearchOptions whole = options(), merging = options();
    whole.events = merging.events = events, merging.jobs.most = 2;
    Knowledge known;
    for (std::int64_t s = 0; s < 3; ++s) {
      SearchOptions part = options();
      part.shard = s, part.shards = 3;
      Search shard(space, part);
      shard.explore();
      known.take(shard.knowledge(), space.members());
    }
    CHECK(text_after(space, merging, std::move(known)) == text_after(space, whole));
  }
}

TEST_CASE("A search that is stopped anywhere goes on to the same answer") {
  const Space space = space_of(small_spaces().front());
  for (const std::int64_t events : {500, 3}) {
    SearchOptions whole = options();
    whole.events = events;
    Knowledge known;
    int stops = 0;
    for (bool ended = false; !ended;) {
      SearchOptions o = whole;
      bool stop = false;
      o.learned = [&] { stop = true; };  // after the first thing that is new
      o.jobs.stop = [&] { return stop; };
      Search search(space, o);
      search.take(std::move(known));
      try {
        search.explore();
        ended = true;
      } catch (const program::Interrupted&) {
        ++stops;
      }
      known = search.knowledge();
    }
    CHECK(stops >= 3);
    CHECK(text_after(space, whole, std::move(known)) == text_after(space, whole));
  }
}

TEST_CASE("A search that is stopped answers with what it has simulated, and leaves the rest out") {
  const Space space = space_of(small_spaces().front());
  SearchOptions o = options(4);
  bool stop = false;
  const Search* running = nullptr;
  o.learned = [&] { stop = running->knowledge().simulated.size() >= 2; };
  o.jobs.stop = [&] { return stop; };
  Search search(space, o);
  running = &search;
  REQUIRE_THROWS_AS(search.explore(), program::Interrupted);
  const Answer answer = search.answer_so_far(2);
  CHECK(answer.interrupted);
  CHECK(!answer.complete);
  REQUIRE(answer.best.size() == 2);
  for (const auto& [id, s] : search.knowledge().simulated)
    if (s.fits && id != answer.best[0].id && id != answer.best[1].id) CHECK(s.time_ps >= answer.best[1].time_ps);
  CHECK(at(answer.counts, Outcome::bounded) == 0);
  CHECK(at(answer.counts, Outcome::left) > 0);
  CHECK(search.settled_groups() > 0);
  CHECK(search.settled_groups() < space.groups());
  const auto slower = [](const Found& a, const Found& b) { return a.estimate_ps < b.estimate_ps; };
  CHECK(std::is_sorted(answer.estimated.begin(), answer.estimated.end(), slower));
}

TEST_CASE("A kept file serves the other kind of search by its simulations, which answers as without the file") {
  const Space space = space_of(small_spaces()[3]);
  const TemporaryFolder folder;
  for (const Kind kind : {Kind::fastest, Kind::front}) {
    const Kind other = kind == Kind::front ? Kind::fastest : Kind::front;
    const std::string file = folder.at("kept" + std::to_string(static_cast<int>(kind)) + ".json");
    Search first(space, options()), alone(space, options()), after(space, options()), same(space, options());
    const auto answer = explored(first, kind);
    Keeper(file, {}, kind, {&first}).write(true);
    CHECK(Keeper(file, {}, kind, {&same}).resume() == Resumed::all);
    CHECK(same.knowledge().facts == first.knowledge().facts);
    CHECK(same.knowledge().groups == first.knowledge().groups);
    CHECK(same.knowledge().found.size() == first.knowledge().found.size());
    CHECK(explored(same, kind) == answer);
    CHECK(Keeper(file, {}, other, {&after}).resume() == Resumed::simulations);
    CHECK(after.knowledge().simulated.size() == first.knowledge().simulated.size());
    CHECK(explored(after, other) == explored(alone, other));
    CHECK_THROWS_WITH(merge({file}, other, {&after}), Catch::Contains("--pareto"));
  }
}

TEST_CASE("A simulated layout that is fast enough is a row, even if a bound says that it is slower") {
  const Space space = space_of(small_spaces().front());
  Search right(space, options());
  right.explore();
  const Answer expected = right.answer();
  REQUIRE(expected.best.size() == 3);
  CHECK(expected.wrong_bounds.empty());
  CHECK(wrong_bounds_text(right, expected).empty());
  Knowledge known = right.knowledge();
  const auto group = static_cast<std::size_t>(expected.best.front().id / space.members());
  known.facts[group].floor_ps = 2 * expected.limit_ps;  // a bound that is wrong
  Search wrong(space, options());
  wrong.take(std::move(known));
  const Answer answer = wrong.answer();
  REQUIRE(answer.best.size() == expected.best.size());
  for (std::size_t i = 0; i < answer.best.size(); ++i) CHECK(answer.best[i].id == expected.best[i].id);
  REQUIRE(answer.wrong_bounds.size() == 1);
  CHECK(answer.wrong_bounds.front() == answer.best.front().id);
  CHECK_THAT(wrong_bounds_text(wrong, answer), Catch::StartsWith("1 simulated layout is below a lower bound") &&
                                                   Catch::Contains("please report the command and this layout: " + space.text(answer.best.front().id)));
  CHECK_THAT(to_json(wrong, answer, {}), Catch::Contains("\"wrong_bounds\": 1,"));
  std::string reason;
  CHECK(wrong.outcome(answer.best.front().id, answer, reason) == Outcome::simulated);
  CHECK(at(answer.counts, Outcome::simulated) >= 3);
}

TEST_CASE("A layout that needs less memory than its bound is told as an error of Tandem, and none that has no time") {
  const Space space = space_of(small_spaces().front());
  Search right(space, options());
  right.explore();
  std::map<CandidateId, Simulated> simulated = right.answer().simulated;
  REQUIRE(!simulated.empty());
  Simulated& first = simulated.begin()->second;
  first.needed = 1;
  CHECK(right.answer_from(simulated, kNoLimit).wrong_bounds == std::vector{first.id});
  first.timed = first.fits = false;
  CHECK(right.answer_from(simulated, kNoLimit).wrong_bounds.empty());
}
