#include "reports/trace/trace_comparison.hpp"

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;
using Catch::Matchers::Contains;

namespace {

const Mesh kMesh({1, 1, 1, 1, 2}, "tp-cp-ep-dp-pp");

SavedTimeline simulated() { return saved(fixture::timeline(Performer::simulated), fixture::graph()); }

std::string head(int rank, int world = 2) {
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":)" + std::to_string(world) + "},\"traceEvents\":[";
}

/// Rank 1 as the fixture has it, in which 10 ns are 1 us: receives from 3.5 to 4.5, multiplies to 7.5, sends to 9.0.
DeviceTrace of_rank_one(double product = 3) {
  const std::string group = R"("Group size":2,"Process Group Ranks":"[0, 1]","dtype":"Float","In msg nelems":7,"Collective name":)";
  return traces::of_text(head(1) + traces::event("user_annotation", "ProfilerStep#4", 0, 10) + "," +
                         traces::event("kernel", "ncclDevKernel_SendRecv(args)", 0, 4.5, group + "\"recv\"") + "," +
                         traces::event("kernel", "gemm", 4.5, product) + "," +
                         traces::event("kernel", "ncclDevKernel_SendRecv(args)", 7.5, 1.5, group + "\"send\"") + "]}");
}

TraceComparison compared(const std::vector<DeviceTrace>& traces, const TraceOptions& options) {
  std::vector<TracedRank> ranks;
  for (const DeviceTrace& trace : traces) ranks.push_back(traced_rank(simulated(), kMesh, trace, options));
  return compare_ranks(std::move(ranks), options);
}

std::string refusal(const DeviceTrace& trace, const TraceOptions& options = {}) {
  try {
    compared({trace}, options);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

const ClassLine& line(const TraceComparison& c, const std::string& cls) {
  for (const ClassLine& l : c.classes)
    if (l.cls == cls) return l;
  FAIL("no class " << cls);
  return c.classes.front();
}

}  // namespace

TEST_CASE("a trace is laid beside the simulated rank of its number") {
  // The simulated rank 1: 100 ns; waits to receive from 0 to 45, multiplies to 75, sends from 75 to 90, idles to 100.
  const TraceComparison c = compared({of_rank_one()}, {});
  REQUIRE(c.ranks.size() == 1);
  CHECK(c.ranks[0].stage == 1);
  CHECK(c.simulated.step_s == Approx(100e-9));
  CHECK(c.measured_step_s == Approx(10e-6));
  CHECK(c.error == Approx(-0.99));
  CHECK(c.simulated.computing_s == Approx(30e-9));
  CHECK(c.simulated.exposed_s == Approx(60e-9));
  CHECK(c.simulated.idle_s == Approx(10e-9));
  CHECK(line(c, "products").simulated.seconds == Approx(30e-9));
  CHECK(line(c, "products").measured.seconds == Approx(3e-6));
  CHECK(line(c, "pipeline communication").simulated.count == 2);
  CHECK(line(c, "pipeline communication").measured.seconds == Approx(6e-6));
}

TEST_CASE("collectives of both sides stand in one line if kind, group and bytes are equal") {
  const TraceComparison c = compared({of_rank_one()}, {});
  REQUIRE(c.collectives.size() == 2);
  for (const CollectiveLine& l : c.collectives) {
    CHECK(l.key.group == "pipeline");
    CHECK(l.key.bytes == 28);
    CHECK(l.simulated.count == 1);
    CHECK(l.measured.count == 1);
  }
  CHECK(collective_notes(c).empty());
}

TEST_CASE("other numbers and sizes of collectives are noted, with both sides' words") {
  TraceComparison c;
  c.measured.step_s = 1;
  c.collectives = {{{"reduce_scatter", "data", 8, 40 << 20}, {0, 0}, {61, 0.3}}, {{"reduce_scatter", "data", 8, 200 << 20}, {12, 0.2}, {0, 0}},
                   {{"all_reduce", "tensor", 2, 1 << 20}, {5, 0.1}, {5, 0.2}},    {{"all_reduce", "world", 16, 4}, {0, 0}, {3, 0.001}}};
  const std::vector<std::string> notes = collective_notes(c);
  REQUIRE(notes.size() == 1);  // equal calls are no news, and a thousandth of the step is too little
  CHECK(notes[0] == "reduce_scatter of data: the run makes 61 of 40.0 MiB per step, the prediction 12 of 200 MiB");
}

TEST_CASE("kernels that send and receive at once are no other number of calls") {
  TraceComparison c;
  c.measured.step_s = 1;
  c.collectives = {{{"recv", "pipeline", 2, 1 << 20}, {4, 0.1}, {0, 0}}, {{"send", "pipeline", 2, 1 << 20}, {4, 0.1}, {0, 0}},
                   {{"send_recv", "pipeline", 2, 0}, {0, 0}, {4, 0.3}}};
  CHECK(collective_notes(c).empty());
  c.collectives[2].key.bytes = 1 << 19;
  REQUIRE(collective_notes(c).size() == 1);
  CHECK(collective_notes(c)[0] == "send and recv of pipeline: the run makes 4 of 512 KiB per step, the prediction 8 of 1.00 MiB");
}

TEST_CASE("the step's error is judged by the spread of the traced steps, or by the user's step time") {
  TraceComparison c;
  c.error = 0.04, c.low = 0.02, c.high = 0.06;
  CHECK(judge_step(c, std::nullopt) == Verdict::not_asked);
  CHECK(judge_step(c, 0.1) == Verdict::within);
  CHECK(judge_step(c, 0.05) == Verdict::undecided);
  CHECK(judge_step(c, 0.01) == Verdict::outside);
  CHECK_THAT(reason_of(c, Verdict::outside, 0.01), Contains("+4.0 %") && Contains("+-1.0 %"));
  TraceOptions options;
  options.step_time_s = 50e-9;
  const TraceComparison told = compared({of_rank_one()}, options);
  CHECK(told.error == Approx(1.0));
  CHECK(told.low == told.high);
}

TEST_CASE("traces that do not belong to the plan are refused") {
  const std::string work = traces::event("kernel", "gemm", 1, 2) + "]}";
  CHECK_THAT(refusal(traces::of_text(head(1, 8) + work)), Contains("distributedInfo.world_size = 8") && Contains("has 2 ranks"));
  CHECK_THAT(refusal(traces::of_text(R"({"traceEvents":[)" + work)), Contains("--rank"));
  TraceOptions options;
  options.rank = 2;
  CHECK_THAT(refusal(traces::of_text(R"({"traceEvents":[)" + work), options), Contains("--rank = 2"));
  options.rank = 1;
  CHECK(refusal(traces::of_text(R"({"traceEvents":[)" + work), options).empty());
  const DeviceTrace one = of_rank_one();
  CHECK_THROWS_WITH(compared({one, one}, {}), Contains("is of this rank, too"));
}

TEST_CASE("of like ranks one trace may leave out its rank, but not two") {
  SavedTimeline alike = simulated();
  alike.lanes.resize(1);
  alike.lanes[0].ranks = {0, 1};
  DeviceTrace trace = traces::of_text(R"({"traceEvents":[)" + traces::event("kernel", "gemm", 1, 2) + "]}");
  trace.path = "one.json";
  std::vector<TracedRank> ranks{traced_rank(alike, kMesh, trace, {})};
  CHECK(compare_ranks(ranks, {}).ranks[0].rank == 0);
  trace.path = "two.json";
  ranks.push_back(traced_rank(alike, kMesh, trace, {}));
  CHECK_THROWS_WITH(compare_ranks(ranks, {}), Contains("two.json") && Contains("is missing") && Contains("one.json"));
}

TEST_CASE("several traces are compared by the means over their ranks") {
  const DeviceTrace zero = traces::of_text(head(0) + traces::event("user_annotation", "ProfilerStep#4", 0, 20) + "," + traces::event("kernel", "gemm", 1, 5) + "]}");
  const TraceComparison c = compared({of_rank_one(), zero}, {});
  CHECK(line(c, "products").measured.seconds == Approx(4e-6));
  CHECK(line(c, "products").simulated.seconds == Approx(25e-9));  // 20 ns on rank 0, 30 on rank 1
  CHECK(c.traced.steps == 2);
}
