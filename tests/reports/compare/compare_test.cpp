#include <cmath>

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "reports/compare/compare.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;
using fixture::ns;
using fixture::TemporaryFile;

namespace {

const CompareLine& find(const std::vector<CompareLine>& lines, const std::string& what) {
  for (const CompareLine& line : lines)
    if (line.what == what) return line;
  FAIL("no line " << what);
  return lines.front();
}

/// Four executed ranks, two a stage, each a lane of its own, as a real run leaves them.
Timeline executed_by_four() {
  Timeline t = fixture::timeline(Performer::executed);
  const Lane upper = t.lanes[0], lower = t.lanes[1];
  t.lanes = {upper, upper, lower, lower};
  for (std::int32_t r = 0; r < 4; ++r) {
    t.lanes[static_cast<std::size_t>(r)].ranks = {r};
    t.lanes[static_cast<std::size_t>(r)].coords[Axis::dp] = r % 2;
  }
  return t;
}

Comparison compared(const Timeline& simulated, const Timeline& executed) {
  return compare(saved(simulated, fixture::graph()), saved(executed, fixture::graph()));
}

}  // namespace

TEST_CASE("A timeline compared with itself has no error anywhere") {
  const Comparison c = compared(fixture::timeline(Performer::simulated), fixture::timeline(Performer::executed));
  CHECK(c.step.error == 0);
  CHECK(c.joined == 7);
  CHECK(c.only_simulated == 0);
  CHECK(c.only_executed == 0);
  CHECK(c.memory_error == 0);
  for (const CompareLine& line : c.kinds) CHECK(line.error == 0);
}

TEST_CASE("A role's lane stands for every rank of it") {
  const Comparison c = compared(fixture::timeline(Performer::simulated, 2), executed_by_four());
  CHECK(c.joined == 14);
  CHECK(c.only_simulated == 0);
  CHECK(c.only_executed == 0);
  CHECK(find(c.kinds, "matmul").tasks == 4);
  // 2 x 20 ns on stage 0 and 2 x 30 ns on stage 1, a mean over four ranks
  CHECK(find(c.kinds, "matmul").executed == ns(25));
}

TEST_CASE("Errors are of the time from the last arrival to the end, by kind, stage and collective") {
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.step_time = ns(90);
  simulated.lanes[0].spans[1].ended = ns(30);  // the all-reduce: 5 ns where 10 were measured
  simulated.lanes[0].spans[0].issued = ns(7);  // issue and waiting are no error of an operation
  simulated.lanes[0].spans[3].ready = ns(60);
  const Comparison c = compared(simulated, fixture::timeline(Performer::executed));
  CHECK(c.step.error == Approx(-0.1).epsilon(1e-12));  // rounding of one division
  CHECK(find(c.kinds, "all_reduce").error == -0.5);
  CHECK(find(c.kinds, "matmul").error == 0);
  CHECK(find(c.kinds, "recv").error == 0);
  CHECK(find(c.collectives, "all_reduce tensor").error == -0.5);
  CHECK(c.collectives.size() == 1);
  CHECK(find(c.operations, "first: reduce").error == -0.5);
  CHECK(find(c.operations, "first: product").tasks == 1);
  CHECK(find(c.operations, "second: product").executed == ns(15));  // 30 ns on one of two ranks
  // stage 0: 20 + 10 + 10 + 10 ns measured, 5 of them not predicted
  CHECK(find(c.stages, "stage 0").error == Approx(-0.1).epsilon(1e-12));
  CHECK(find(c.stages, "stage 1").error == 0);
}

TEST_CASE("A task that only one performer did is counted, not dropped") {
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.lanes[0].spans.erase(simulated.lanes[0].spans.begin() + 1);
  const Comparison less = compared(simulated, fixture::timeline(Performer::executed));
  CHECK(less.only_executed == 1);
  CHECK(less.joined == 6);
  Timeline executed = fixture::timeline(Performer::executed);
  executed.lanes[1].spans.pop_back();
  const Comparison more = compared(fixture::timeline(Performer::simulated), executed);
  CHECK(more.only_simulated == 1);
  CHECK(more.joined == 6);
}

TEST_CASE("A rank that no simulated role stands for leaves all its tasks unjoined") {
  Timeline executed = fixture::timeline(Performer::executed);
  executed.lanes[1].ranks = {9};
  const Comparison c = compared(fixture::timeline(Performer::simulated), executed);
  CHECK(c.only_executed == 3);
  CHECK(c.joined == 4);
}

TEST_CASE("Memory is compared on the heaviest rank") {
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.lanes[1].arena_bytes = Bytes(5120);
  const Comparison c = compared(simulated, fixture::timeline(Performer::executed));
  CHECK(c.simulated_peak_bytes == 5120);
  CHECK(c.executed_peak_bytes == 4096);
  CHECK(c.memory_error == 0.25);
}

TEST_CASE("Time predicted for what took none is an infinite error and null in JSON") {
  Timeline executed = fixture::timeline(Performer::executed);
  executed.lanes[0].spans[1].ended = executed.lanes[0].spans[1].started;
  const Comparison c = compared(fixture::timeline(Performer::simulated), executed);
  CHECK(std::isinf(find(c.collectives, "all_reduce tensor").error));
  const auto json = nlohmann::json::parse(to_json(c));
  CHECK(json["schema_version"] == 1);
  CHECK(json["collectives"][0]["error"].is_null());
  CHECK(json["step"]["executed_s"] == 1e-7);
  CHECK(json["tasks"]["joined"] == 7);
}

TEST_CASE("Waiting is what is left of the step where no task of a rank runs") {
  // Lane 0 is busy for 50 of 100 ns and lane 1 for the union of its spans; counted here a nanosecond at a time.
  const Timeline executed = fixture::timeline(Performer::executed);
  std::int64_t idle = 0;
  for (const Lane& lane : executed.lanes)
    for (std::int64_t t = 0; t < 100; ++t) {
      bool runs = false;
      for (const Span& s : lane.spans) runs = runs || (s.started <= ns(t) && ns(t) < s.ended);
      idle += runs ? 0 : 1;
    }
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.step_time = ns(110);
  const Comparison c = compared(simulated, executed);
  CHECK(c.waiting.executed == Duration::picoseconds(idle * 1000 / 2));
  CHECK(c.waiting.simulated == Duration::picoseconds(idle * 1000 / 2) + ns(10));
}

TEST_CASE("Two runs, or two simulations, are a new one and its baseline") {
  const Performer performer = GENERATE(Performer::simulated, Performer::executed);
  Timeline slower = fixture::timeline(performer);
  slower.step_time = ns(125);
  const TemporaryFile now("now"), before("before");
  save_timeline(slower, fixture::graph(), now.path());
  save_timeline(fixture::timeline(performer), fixture::graph(), before.path());
  const Comparison c = compare(now.path(), before.path());
  CHECK(of_one_performer(c));
  CHECK(c.joined == 7);
  CHECK(c.step.error == 0.25);
  const auto json = nlohmann::json::parse(to_json(c));
  CHECK(json["step"]["new_s"] == 1.25e-7);
  CHECK(json["step"]["baseline_s"] == 1e-7);
  CHECK(json["step"]["change"] == 0.25);
  CHECK(json["tasks"]["only_baseline"] == 0);
  CHECK(to_text(c).find("baseline") != std::string::npos);
  CHECK(to_text(c).find("simulated") == std::string::npos);
}

TEST_CASE("Files are refused when the performers are swapped or the plans differ") {
  const TemporaryFile simulated("simulated"), executed("executed"), other("other");
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), simulated.path());
  save_timeline(fixture::timeline(Performer::executed), fixture::graph(), executed.path());
  Timeline different = fixture::timeline(Performer::executed);
  different.plan_json = R"({"model":{"num_layers":3},"parallel":{"pipeline":2},"training":{"seq_length":8}})";
  save_timeline(different, fixture::graph(), other.path());

  CHECK(compare(simulated.path(), executed.path()).joined == 7);
  CHECK_THROWS_AS(compare(executed.path(), simulated.path()), ConfigError);
  try {
    compare(simulated.path(), other.path());
    FAIL("accepted timelines of two plans");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().field == "model.num_layers");
  }
}

TEST_CASE("Plans that differ only in steps, names and cluster are the same work") {
  const TemporaryFile simulated("steps"), executed("steps");
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), simulated.path());
  Timeline longer = fixture::timeline(Performer::executed);
  longer.plan_json = R"({"name":"x","model":{"num_layers":2},"parallel":{"pipeline":2},"cluster":{"devices":9},
                         "training":{"seq_length":8,"steps":50}})";
  save_timeline(longer, fixture::graph(), executed.path());
  CHECK(compare(simulated.path(), executed.path()).joined == 7);
}
