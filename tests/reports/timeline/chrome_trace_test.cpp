#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "reports/timeline/chrome_trace.hpp"
#include "reports/timeline/memory_over_time.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;
using fixture::ns;
using nlohmann::json;

namespace {

json events(const Timeline& t, const std::string& phase) {
  const json trace = json::parse(chrome_trace(t, fixture::graph()));
  json out = json::array();
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == phase) out.push_back(e);
  return out;
}

void check_no_overlap(const json& slices) {
  std::map<std::pair<int, int>, double> free;
  for (const json& e : slices) {
    double& until = free[{e["pid"], e["tid"]}];
    CHECK(e["ts"].get<double>() >= until - 5e-7);  // half a picosecond: ts + dur rounds in fp64
    until = e["ts"].get<double>() + e["dur"].get<double>();
  }
}

}  // namespace

TEST_CASE("A trace has one slice per task, on fixed thread numbers, in microseconds") {
  const json slices = events(fixture::timeline(Performer::simulated), "X");
  REQUIRE(slices.size() == 7);
  CHECK(slices[0]["name"] == "product");
  CHECK(slices[0]["tid"] == 0);
  CHECK(slices[0]["dur"] == 0.02);
  CHECK(slices[0]["args"]["flops"] == 60);
  CHECK(slices[1]["tid"] == 10);
  CHECK(slices[1]["args"]["bytes"] == 40);
  CHECK(slices[1]["args"]["group"] == name(Group::tensor));
  CHECK(slices[2]["tid"] == 30);
  CHECK(slices[3]["tid"] == 31);
}

TEST_CASE("A communication's slice begins when the rank was ready and tells its wait") {
  const json slices = events(fixture::timeline(Performer::simulated), "X");
  CHECK(slices[1]["ts"] == 0.02);
  CHECK(slices[1]["dur"] == 0.015);
  CHECK(slices[1]["args"]["wait_us"] == 0.005);
}

TEST_CASE("Slices of one thread never overlap, even where clocks say they did") {
  Timeline t = fixture::timeline(Performer::executed);
  check_no_overlap(events(t, "X"));
  t.lanes[1].spans[0].ended = ns(50);
  t.lanes[1].spans.push_back(fixture::span(0, 0, 10, 20, 60));  // a receive that claims to have begun inside another
  t.lanes[1].spans.push_back(fixture::span(0, 0, 10, 20, 30));  // and one that lies wholly inside
  check_no_overlap(events(t, "X"));
}

TEST_CASE("Every send has an arrow to its receive on the neighbour stage") {
  const json starts = events(fixture::timeline(Performer::simulated), "s");
  const json ends = events(fixture::timeline(Performer::simulated), "f");
  REQUIRE(starts.size() == 2);
  REQUIRE(ends.size() == 2);
  CHECK(starts[0]["pid"] == 0);
  CHECK(ends[0]["pid"] == 1);
  CHECK(starts[1]["pid"] == 1);
  CHECK(ends[1]["pid"] == 0);
  for (const json& e : ends) CHECK(e["bp"] == "e");
  CHECK(starts[0]["id"] == ends[0]["id"]);
  CHECK(starts[0]["id"] != starts[1]["id"]);
}

TEST_CASE("Memory over time follows the plan's allocations at the times of their instances") {
  const Timeline t = fixture::timeline(Performer::simulated);
  const TaskGraph graph = fixture::graph();
  const auto samples = memory_over_time(t.lanes[0], graph.programs[0]);
  const auto weights = static_cast<std::size_t>(MemoryKind::weights);
  const auto activations = static_cast<std::size_t>(MemoryKind::activations);
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].at == ns(0));
  CHECK(samples[0].live[weights] == Bytes(1 << 20));
  CHECK(samples[0].live[activations] == Bytes(0));
  CHECK(samples[1].at == ns(80));
  CHECK(samples[1].live[activations] == Bytes(512));
  CHECK(samples[2].at == ns(90));
  CHECK(samples[2].live[activations] == Bytes(0));
  CHECK(samples[2].live[weights] == Bytes(1 << 20));
  CHECK(events(t, "C").size() >= 3);
}

TEST_CASE("More lanes than a trace holds are represented by one of each stage, and the trace says so") {
  Timeline t = fixture::timeline(Performer::executed);
  const Lane upper = t.lanes[0], lower = t.lanes[1];
  t.lanes.clear();
  for (std::int32_t r = 0; r < 60; ++r) {
    t.lanes.push_back(r < 30 ? upper : lower);
    t.lanes.back().ranks = {r};
  }
  const json trace = json::parse(chrome_trace(t, fixture::graph()));
  CHECK(trace["otherData"]["note"] == "2 representatives of 60 ranks are shown");
  std::set<int> shown;
  for (const json& e : trace["traceEvents"]) shown.insert(e["pid"].get<int>());
  CHECK(shown == std::set<int>{0, 30});
  const json small = json::parse(chrome_trace(fixture::timeline(Performer::simulated), fixture::graph()));
  CHECK(small["otherData"]["note"] == "every rank is shown");
}

TEST_CASE("A lane that stands for many ranks says so in its name") {
  const json names = events(fixture::timeline(Performer::simulated, 4), "M");
  CHECK(names[0]["name"] == "process_name");
  CHECK(names[0]["args"]["name"] == "rank 0 | pp0 dp0 tp0 | stands for 4 ranks");
}

TEST_CASE("Ranks that differ along the context or expert axis are told apart by name") {
  Timeline t = fixture::timeline(Performer::executed);
  t.lanes[1].coords[Axis::cp] = 1;
  t.lanes[1].coords[Axis::pp] = 0;
  t.lanes[1].spans.clear();
  std::set<std::string> names;
  for (const json& e : events(t, "M"))
    if (e["name"] == "process_name") names.insert(e["args"]["name"]);
  CHECK(names == std::set<std::string>{"rank 0 | pp0 dp0 cp0 tp0", "rank 1 | pp0 dp0 cp1 tp0"});
}
