#include <cmath>

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "reports/compare/compare.hpp"
#include "reports/compare/judgement.hpp"
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
  CHECK(less.only_executed_time == ns(5));  // 10 ns on one of two ranks
  CHECK(less.only_simulated_time == ns(0));
  CHECK((find(less.kinds, "all_reduce").simulated == ns(0) && find(less.kinds, "all_reduce").executed == ns(5)));
  CHECK((find(less.kinds, "all_reduce").tasks == 0 && find(less.kinds, "all_reduce").error == -1));
  CHECK(find(less.operations, "first: reduce").executed == ns(5));
  CHECK(find(less.collectives, "all_reduce tensor").executed == ns(5));
  CHECK(to_text(less, {}).find("only executed 1 (5.00 ns per rank)") != std::string::npos);
  Timeline executed = fixture::timeline(Performer::executed);
  executed.lanes[1].spans.pop_back();
  const Comparison more = compared(fixture::timeline(Performer::simulated), executed);
  CHECK(more.only_simulated == 1);
  CHECK(more.joined == 6);
  CHECK(more.only_simulated_time > ns(0));
}

TEST_CASE("Every table adds up to all tasks of both, also with tasks that only one has") {
  Timeline simulated = fixture::timeline(Performer::simulated), executed = fixture::timeline(Performer::executed);
  simulated.lanes[0].spans.erase(simulated.lanes[0].spans.begin() + 1);
  executed.lanes[1].spans.pop_back();
  const auto busy = [](const Timeline& t) {
    Duration sum;
    for (const Lane& lane : t.lanes)
      for (const Span& s : lane.spans) sum += s.ended - s.started;
    return Duration::picoseconds(sum.ps() / 2);  // of two ranks
  };
  const Comparison c = compared(simulated, executed);
  for (const auto* table : {&c.kinds, &c.stages, &c.operations}) {
    Duration first, second;
    for (const CompareLine& line : *table) first += line.simulated, second += line.executed;
    CHECK(first == busy(simulated));
    CHECK(second == busy(executed));
  }
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
  const auto json = nlohmann::json::parse(to_json(c, {}));
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
  const auto json = nlohmann::json::parse(to_json(c, {}));
  CHECK(json["step"]["new_s"] == 1.25e-7);
  CHECK(json["step"]["baseline_s"] == 1e-7);
  CHECK(json["step"]["change"] == 0.25);
  CHECK(json["tasks"]["only_baseline"] == 0);
  CHECK(to_text(c, {}).find("baseline") != std::string::npos);
  CHECK(to_text(c, {}).find("simulated") == std::string::npos);
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

namespace {

/// A run whose steps took so many nanoseconds; the last one is kept.
SavedTimeline run_of(const std::vector<std::int64_t>& steps_ns) {
  SavedTimeline t = saved(fixture::timeline(Performer::executed), fixture::graph());
  t.history = RunHistory{};
  for (std::size_t i = 0; i < steps_ns.size(); ++i)
    t.history->steps.push_back({static_cast<std::int64_t>(i), 5, 1, 1e-3, static_cast<double>(steps_ns[i]) * 1e-9, 8});
  t.history->kept_step = static_cast<std::int64_t>(steps_ns.size()) - 1;
  t.step_time = ns(steps_ns.back());
  return t;
}

Verdict verdict_of(const SavedTimeline& first, const SavedTimeline& second, double tolerance) {
  const Comparison c = compare(first, second);
  return judge(c, {tolerance, std::nullopt}).verdict;
}

/// The two stages on one rank: another layout of the same model.
SavedTimeline other_layout(Performer performer) {
  SavedTimeline t = saved(fixture::timeline(performer), fixture::graph());
  t.plan_json = R"({"model":{"num_layers":2},"parallel":{"pipeline":1},"training":{"steps":1,"seq_length":8}})";
  for (const SavedSpan& s : t.lanes[1].spans) t.lanes[0].spans.push_back(s);
  t.lanes.pop_back();
  return t;
}

}  // namespace

TEST_CASE("Two equal runs are within any tolerance whatever the recorded step took") {
  const SavedTimeline quiet = run_of({150, 99, 100, 101, 100, 102, 100}), loud = run_of({150, 100, 101, 99, 100, 103, 113});
  const Comparison c = compare(loud, quiet);
  CHECK(c.step.error == Approx(0.13));
  CHECK(c.typical.error == Approx(0.005));
  CHECK(verdict_of(loud, quiet, 0.05) != Verdict::outside);
  CHECK(verdict_of(loud, quiet, 0) != Verdict::outside);
  CHECK(verdict_of(loud, quiet, 0.2) == Verdict::within);
  const auto json = nlohmann::json::parse(to_json(c, judge(c, {0.2, std::nullopt})));
  CHECK(json["verdict"] == "within");
  CHECK(json["step_times"]["verdict"] == "within");
  CHECK(json["step_times"]["tolerance"] == 0.2);
  CHECK(json["step_times"]["new"]["steps"] == 6);
  CHECK(json["step_times"]["baseline"]["median_s"] == Approx(1e-7));
  CHECK(json["memory"]["verdict"].is_null());
  CHECK(c.notes.size() == 1);  // the recorded step is not like the others
  CHECK(c.notes[0].find("+12.4 %") != std::string::npos);
}

TEST_CASE("Notes on recorded steps of two runs say of which run they are") {
  const SavedTimeline a = run_of({150, 100, 100, 100, 120}), b = run_of({150, 100, 100, 100, 100, 100, 130});
  const std::vector<std::string> both = compare(a, b).notes;
  REQUIRE(both.size() == 2);
  CHECK(both[0].starts_with("new: step 4, whose tasks these are"));
  CHECK(both[1].starts_with("baseline: step 6, whose tasks these are"));
  CHECK(compare(run_of({150, 100, 100, 100, 100}), b).notes.at(0).starts_with("baseline: step 6"));
  CHECK(compare(b, b).notes.at(0).starts_with("step 6"));  // a page about one run
  SavedTimeline simulation = saved(fixture::timeline(Performer::simulated), fixture::graph());
  CHECK(compare(simulation, b).notes.at(0).starts_with("step 6"));  // a simulation has one step
}

TEST_CASE("A run whose every step is slower is outside, and a faster one never") {
  const SavedTimeline slow = run_of({150, 120, 121, 119, 120}), fast = run_of({150, 100, 101, 99, 100});
  CHECK(verdict_of(slow, fast, 0.05) == Verdict::outside);
  CHECK(verdict_of(slow, fast, 0.2) == Verdict::undecided);
  CHECK(verdict_of(slow, fast, 0.3) == Verdict::within);
  CHECK(verdict_of(fast, slow, 0) == Verdict::within);
  const Comparison c = compare(slow, fast);
  const std::vector<std::string> said = reasons(c, judge(c, {0.05, std::nullopt}));
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("change of the step time +20.0 %"));
}

TEST_CASE("A prediction is judged by the spread of the run's steps on both sides") {
  SavedTimeline predicted = saved(fixture::timeline(Performer::simulated), fixture::graph());
  predicted.step_time = ns(90);
  CHECK(verdict_of(predicted, run_of({150, 99, 100, 101}), 0.05) == Verdict::outside);
  CHECK(verdict_of(predicted, run_of({150, 90, 100, 110}), 0.05) == Verdict::undecided);
  CHECK(verdict_of(predicted, run_of({150, 99, 100, 101}), 0.2) == Verdict::within);
}

TEST_CASE("Two runs of too few steps to show a spread are not judged") {
  const SavedTimeline few = run_of({150, 100, 100}), enough = run_of({150, 100, 100, 100});
  const Comparison c = compare(few, enough);
  CHECK_THROWS_WITH(require_judgeable(c, {0.05, std::nullopt}, "few.json", "enough.json"),
                    Catch::Contains("few.json") && Catch::Contains("run.steps = 2") && Catch::Contains("at least 4 steps"));
  CHECK_NOTHROW(require_judgeable(c, {std::nullopt, 0.05}, "few.json", "enough.json"));
  CHECK_NOTHROW(require_judgeable(compare(enough, enough), {0.05, std::nullopt}, "a", "b"));
}

TEST_CASE("Errors of single operations that cancel are told") {
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.lanes[0].spans[0].ended = ns(34);   // a product: 14 ns more on one of two ranks
  simulated.lanes[1].spans[1].ended = ns(89);   // and 14 on the other
  simulated.lanes[0].spans[1].ended = ns(26);   // the all-reduce: 9 ns less
  simulated.lanes[0].spans[2].ended = ns(36);   // sends and receives: 9 ns less each
  simulated.lanes[0].spans[3].ended = ns(81);
  simulated.lanes[1].spans[0].ended = ns(36);
  simulated.step_time = ns(97);
  const Comparison c = compared(simulated, fixture::timeline(Performer::executed));
  REQUIRE(c.cancelling.has_value());
  CHECK(c.cancelling->over == "matmul");
  CHECK(c.cancelling->over_share == Approx(0.20));   // products 14, waiting 6
  CHECK(c.cancelling->under_share == Approx(0.18));  // the all-reduce 4.5, sends 4.5, receives 9
  CHECK(to_text(c, {}).find("note: errors of single operations cancel: matmul +56.0 % (+14.0 % of the step)") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(c, {}));
  CHECK(json["cancelling"]["over"] == "matmul");
  const Comparison equal = compared(fixture::timeline(Performer::simulated), fixture::timeline(Performer::executed));
  CHECK_FALSE(equal.cancelling.has_value());
  CHECK(nlohmann::json::parse(to_json(equal, {}))["cancelling"].is_null());
}

TEST_CASE("A simulation without a measured table behind it is told, one that does not say is not") {
  SavedTimeline simulated = saved(fixture::timeline(Performer::simulated), fixture::graph());
  const SavedTimeline executed = saved(fixture::timeline(Performer::executed), fixture::graph());
  const auto notes = [&] { return compare(simulated, executed).notes; };
  CHECK(notes().empty());
  simulated.measured_table = "h100-sxm5-80gb";
  CHECK(notes().empty());
  simulated.measured_table = "";
  REQUIRE(notes().size() == 1);
  CHECK(notes()[0].find("no measured table") != std::string::npos);
}

TEST_CASE("What differs most, as a share of the step, comes first") {
  Timeline simulated = fixture::timeline(Performer::simulated);
  simulated.lanes[0].spans[1].ended = ns(30);  // the all-reduce: 5 ns less on one of two ranks
  simulated.lanes[1].spans[1].ended = ns(79);  // a product: 4 ns more
  const Comparison c = compared(simulated, fixture::timeline(Performer::executed));
  REQUIRE(c.kinds.size() == 4);
  CHECK(c.kinds[0].what == "all_reduce");
  CHECK(c.kinds[0].share == Approx(-0.025));
  CHECK(c.kinds[1].what == "matmul");
  CHECK(c.kinds[1].share == Approx(0.02));
  CHECK(c.operations[0].what == "first: reduce");
  CHECK(c.operations[1].what == "second: product");
}

TEST_CASE("Two layouts of one model are compared by name, and what cannot be joined is told") {
  const SavedTimeline staged = saved(fixture::timeline(Performer::executed), fixture::graph());
  SavedTimeline flat = other_layout(Performer::executed);
  CHECK_NOTHROW(require_comparable(flat, staged, "flat", "staged"));
  const Comparison c = compare(flat, staged);
  CHECK_FALSE(c.by_rank);
  REQUIRE(c.differences.size() == 1);
  CHECK(c.differences[0].field == "parallel.pipeline");
  CHECK(c.differences[0].first == "1");
  CHECK(c.differences[0].second == "2");
  CHECK(find(c.kinds, "matmul").simulated == ns(50));  // both products on the one rank
  CHECK(find(c.kinds, "matmul").executed == ns(25));   // a mean over two
  CHECK(c.only_simulated == 0);
  CHECK(c.only_executed == 0);
  CHECK(c.stages.empty());
  std::erase_if(flat.lanes[0].spans, [&](const SavedSpan& s) { return flat.tasks[s.task].task == "down"; });
  const Comparison less = compare(flat, staged);
  CHECK(less.only_executed == 1);
  CHECK(find(less.operations, "first: down").simulated == ns(0));
  CHECK(judge(less, {1.0, std::nullopt}).verdict != Verdict::outside);
  CHECK(to_text(less, {}).find("the plans differ") != std::string::npos);
}

TEST_CASE("Another padding of the same vocabulary is told, not refused") {
  SavedTimeline other = saved(fixture::timeline(Performer::executed), fixture::graph());
  SavedTimeline own = other;
  own.plan_json = R"({"model":{"num_layers":2,"vocab_size":1000,"pad_vocab_to":128},"parallel":{"pipeline":2,"tensor":1}})";
  other.plan_json = R"({"model":{"num_layers":2,"vocab_size":1000,"pad_vocab_to":256},"parallel":{"pipeline":2,"tensor":2}})";
  CHECK_NOTHROW(require_comparable(other, own, "other", "own"));
  const Comparison c = compare(other, own);
  REQUIRE(c.differences.size() == 2);
  CHECK((c.differences[0].field == "model.pad_vocab_to" && c.differences[0].first == "256" && c.differences[0].second == "128"));
  other.plan_json = R"({"model":{"num_layers":2,"vocab_size":1001,"pad_vocab_to":256},"parallel":{"pipeline":2,"tensor":2}})";
  CHECK_THROWS_WITH(require_comparable(other, own, "other", "own"), Catch::Contains("model.vocab_size"));
}

TEST_CASE("Another learning rate is told and joined task by task, another batch is refused") {
  SavedTimeline other = saved(fixture::timeline(Performer::executed), fixture::graph());
  const SavedTimeline own = other;
  other.plan_json = R"({"model":{"num_layers":2},"parallel":{"pipeline":2},"training":{"seq_length":8,"learning_rate":0.5}})";
  const Comparison c = compare(other, own);
  CHECK(c.by_rank);
  CHECK(c.joined == 7);
  REQUIRE(c.differences.size() == 1);
  CHECK(c.differences[0].field == "training.learning_rate");
  other.plan_json = R"({"model":{"num_layers":2},"parallel":{"pipeline":2},"training":{"seq_length":16}})";
  CHECK_THROWS_WITH(require_comparable(other, own, "other", "own"), Catch::Contains("own: training.seq_length = 8"));
}

TEST_CASE("Ranks that one lane stands for count as often as they are") {
  Timeline simulated = fixture::timeline(Performer::simulated, 1024);
  simulated.lanes[0].spans[0].ended = ns(10);
  const Comparison c = compared(simulated, fixture::timeline(Performer::executed, 1024));
  CHECK(c.joined == 7 * 1024);
  CHECK(find(c.kinds, "matmul").tasks == 2 * 1024);
  CHECK(find(c.kinds, "matmul").simulated == ns(20));
  CHECK(find(c.kinds, "matmul").executed == ns(25));
}
