#include "reports/trace/trace_steps.hpp"

#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;
using traces::kernel;

namespace {

Duration us(std::int64_t n) { return Duration::nanoseconds(1000 * n); }

std::string step(int number, double start, double time, const std::string& category = "user_annotation") {
  return traces::event(category, "ProfilerStep#" + std::to_string(number), start, time);
}

TraceSteps steps(const std::string& events, std::int64_t whole = 1) {
  return steps_of(traces::of_text(traces::file_of(events)), whole);
}

}  // namespace

TEST_CASE("a step of a host that waits for its device is the host's annotation") {
  const std::string marks = step(1, 0, 100) + "," + step(2, 100, 100) + ",";
  const TraceSteps found = steps(marks + kernel("a", 10, 20, 30, 1) + "," + kernel("b", 110, 120, 60, 2));
  CHECK(found.evidence == StepEvidence::host_annotations);
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[0].time() == us(100));
  CHECK(found.steps[1].time() == us(100));
  CHECK(found.steps[1].events == std::vector<std::uint32_t>{1});
}

TEST_CASE("a step of a host that runs ahead begins when the device has ended the one before") {
  // The host is done at 20 and 40; the device works from 10 to 110 and from 110 to 210.
  const std::string marks = step(1, 0, 20) + "," + step(2, 20, 20) + ",";
  const TraceSteps found = steps(marks + kernel("a", 5, 10, 100, 1) + "," + kernel("b", 25, 110, 100, 2));
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[0].end == us(110));
  CHECK(found.steps[1].begin == us(110));
  CHECK(found.steps[1].time() == us(100));
}

TEST_CASE("work belongs to the step that launched it, not to the one in which it starts") {
  const std::string marks = step(1, 0, 50) + "," + step(2, 50, 50) + ",";
  const TraceSteps found = steps(marks + kernel("late", 40, 60, 10, 1) + "," + kernel("b", 55, 70, 10, 2));
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[0].events == std::vector<std::uint32_t>{0});
  CHECK(found.steps[0].end == us(70));
}

TEST_CASE("of three steps the first is left out if it is 5 % longer than the others") {
  const auto three = [](double first) {
    return step(1, 0, first) + "," + step(2, first, 50) + "," + step(3, first + 50, 51) + "," + kernel("a", 1, 2, 3, 1) + "," +
           kernel("b", first + 1, first + 2, 3, 2) + "," + kernel("c", first + 51, first + 52, 3, 3);
  };
  CHECK(steps(three(60)).warm_up == "ProfilerStep#1");
  CHECK(steps(three(60)).steps.size() == 2);
  CHECK(steps(three(53)).warm_up.empty());  // the last one takes 51
  CHECK(steps(three(53)).steps.size() == 3);
}

TEST_CASE("steps without work of the device do not count") {
  const TraceSteps found = steps(step(1, 0, 50) + "," + step(2, 50, 50) + "," + kernel("a", 10, 20, 10, 1));
  CHECK(found.steps.size() == 1);
  CHECK(found.incomplete == 1);
}

TEST_CASE("without the host, annotations of the device tell the steps") {
  const TraceSteps found = steps(step(1, 0, 50, "gpu_user_annotation") + "," + step(2, 60, 50, "gpu_user_annotation") + "," +
                                 traces::event("kernel", "a", 5, 10) + "," + traces::event("kernel", "b", 70, 10));
  CHECK(found.evidence == StepEvidence::device_annotations);
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[0].time() == us(60));
  CHECK(found.steps[1].events == std::vector<std::uint32_t>{1});
}

TEST_CASE("without annotations the whole trace is one step, or as many as the caller says") {
  const std::string events = kernel("a", 0, 5, 10, 1) + "," + kernel("b", 20, 25, 10, 2);
  const TraceSteps one = steps(events), two = steps(events, 2);
  CHECK(one.evidence == StepEvidence::whole_trace);
  REQUIRE(one.steps.size() == 1);
  CHECK(one.steps[0].time() == us(30));
  CHECK(one.steps[0].events.size() == 2);
  CHECK(two.divisor == 2);
}
