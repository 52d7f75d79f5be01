#include <cmath>
#include <limits>
#include <tuple>

#include "models/base/error.hpp"
#include "reports/page/time_shares.hpp"
#include "reports/timeline/restored_timeline.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;
using fixture::ns;
using fixture::TemporaryFile;

namespace {

SavedTimeline of_fixture() { return saved(fixture::timeline(Performer::executed), fixture::graph()); }

void check_equal(const Span& a, const Span& b) {
  const auto all = [](const Span& s) { return std::tie(s.instance, s.task, s.issued, s.ready, s.started, s.ended); };
  INFO("task " << a.task << " of instance " << a.instance);
  CHECK((all(a) == all(b)));
}

}  // namespace

TEST_CASE("A saved timeline laid over its graph is the timeline that was saved") {
  const Timeline before = fixture::timeline(Performer::executed, 2);
  const Timeline after = restored(saved(before, fixture::graph()), fixture::graph(), "file", {0, 1});
  CHECK(after.step_time == before.step_time);
  REQUIRE(after.lanes.size() == before.lanes.size());
  for (std::size_t l = 0; l < before.lanes.size(); ++l) {
    CHECK(after.lanes[l].ranks == before.lanes[l].ranks);
    CHECK(after.lanes[l].arena_bytes == before.lanes[l].arena_bytes);
    REQUIRE(after.lanes[l].spans.size() == before.lanes[l].spans.size());
    for (std::size_t s = 0; s < before.lanes[l].spans.size(); ++s) check_equal(after.lanes[l].spans[s], before.lanes[l].spans[s]);
  }
}

TEST_CASE("Tasks of equal name are told apart by their order") {
  TaskGraph graph = fixture::graph();
  graph.programs[0].instances.push_back(graph.programs[0].instances[0]);  // the same block once more
  Timeline t = fixture::timeline(Performer::executed);
  t.lanes[0].spans.push_back(fixture::span(2, 0, 90, 90, 95));
  const Timeline after = restored(saved(t, graph), graph, "file", {0});
  check_equal(after.lanes[0].spans[0], t.lanes[0].spans[0]);
  check_equal(after.lanes[0].spans.back(), t.lanes[0].spans.back());
}

TEST_CASE("A timeline whose plan is lowered otherwise now is refused with its file") {
  SavedTimeline unknown_task = of_fixture();
  unknown_task.tasks[0].task = "renamed";
  CHECK_THROWS_WITH(restored(unknown_task, fixture::graph(), "mine.json", {0, 1}), Catch::Contains("mine.json") && Catch::Contains("first: renamed"));
  SavedTimeline unknown_stage = of_fixture();
  unknown_stage.lanes[1].coords[Axis::pp] = 2;
  CHECK_THROWS_AS(restored(unknown_stage, fixture::graph(), "mine.json", {0, 1}), ConfigError);
  SavedTimeline twice = of_fixture();
  twice.lanes[0].spans.push_back(twice.lanes[0].spans[0]);
  CHECK_THROWS_AS(restored(twice, fixture::graph(), "mine.json", {0, 1}), ConfigError);
}

TEST_CASE("Shares of time add up to the step, computing before what is sent before waiting") {
  SavedTimeline t = of_fixture();
  // stage 0: product 0 to 20, its reduction 25 to 35, send 35 to 45, gradient 80 to 90; of 100 ns
  CHECK(time_shares(t, t.lanes[0]) == TimeShares{{"forward", ns(20)}, {"tensor_comm", ns(10)}, {"pipeline_comm", ns(20)}, {"waiting", ns(50)}});
  t.lanes[0].spans[1].started = ns(15);  // 5 ns of the reduction lie under the product
  t.lanes[0].spans[2].started = ns(30);  // and 5 ns of the send under the reduction
  CHECK(time_shares(t, t.lanes[0]) == TimeShares{{"forward", ns(20)}, {"tensor_comm", ns(15)}, {"pipeline_comm", ns(20)}, {"waiting", ns(45)}});
  t.step_time = ns(85);  // a step that the next one begins before
  Duration sum;
  for (const auto& [what, time] : time_shares(t, t.lanes[0])) sum += time;
  CHECK(sum == ns(85));
}

TEST_CASE("A training's steps are kept in its timeline file, losses that are no numbers too") {
  RunHistory history;
  history.steps = {{0, 5.5, 2, 1e-3, 0.25, 8},
                   {1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e-3, 0.5, 8}};
  history.steps[0].mtp_loss = 5.75;
  history.evaluations = {{1, 5.25}};
  history.kept_step = 1;
  history.peak_memory_bytes = 4096;
  const TemporaryFile file("history");
  save_timeline(fixture::timeline(Performer::executed), fixture::graph(), file.path(), nullptr, &history);
  const auto read = read_timeline(file.path()).history;
  REQUIRE(read.has_value());
  REQUIRE(read->steps.size() == 2);
  CHECK(read->steps[0].loss == 5.5);
  CHECK(read->steps[0].grad_norm == 2);
  CHECK(read->steps[0].learning_rate == 1e-3);
  CHECK(read->steps[0].step_time_s == 0.25);
  CHECK(read->steps[0].global_batch_size == 8);
  CHECK(read->steps[0].mtp_loss == 5.75);
  CHECK_FALSE(read->steps[1].mtp_loss.has_value());
  CHECK(std::isnan(read->steps[1].loss));
  CHECK(std::isnan(read->steps[1].grad_norm));
  REQUIRE(read->evaluations.size() == 1);
  CHECK(read->evaluations[0].loss == 5.25);
  CHECK(read->kept_step == 1);
  CHECK(read->peak_memory_bytes == 4096);
  save_timeline(fixture::timeline(Performer::executed), fixture::graph(), file.path());
  CHECK_FALSE(read_timeline(file.path()).history.has_value());
}
