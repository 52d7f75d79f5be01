#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/timeline/step_times.hpp"
#include "tests/catch.hpp"
#include "tests/reports/fixture.hpp"

using namespace tandem;
using fixture::TemporaryFile;

TEST_CASE("A timeline read back holds what was written, without the graph") {
  const TemporaryFile file("timeline");
  const Timeline written = fixture::timeline(Performer::executed, 3);
  save_timeline(written, fixture::graph(), file.path());
  const SavedTimeline read = read_timeline(file.path());

  CHECK(read.performer == Performer::executed);
  CHECK(read.step_time == written.step_time);
  REQUIRE(read.lanes.size() == 2);
  CHECK(read.lanes[1].ranks == std::vector<std::int32_t>{3, 4, 5});
  CHECK(read.lanes[1].coords == written.lanes[1].coords);
  CHECK(read.lanes[0].arena_bytes == Bytes(4096));
  REQUIRE(read.lanes[0].spans.size() == 4);
  const SavedSpan& s = read.lanes[0].spans[1];
  const SavedTask& t = read.tasks[s.task];
  CHECK(t.block == "first");
  CHECK(t.task == "reduce");
  CHECK(t.kind == "all_reduce");
  CHECK(t.group == name(Group::tensor));
  CHECK(t.stream == name(Stream::tensor));
  CHECK(t.payload == Bytes(40));
  CHECK(read.tasks[read.lanes[0].spans[0].task].flops == Flops(60));
  CHECK(s.layer == 0);
  CHECK(s.micro_batch == 0);
  CHECK(read.phases[static_cast<std::size_t>(s.phase)] == name(Phase::forward));
  CHECK(s.ready == Duration::nanoseconds(20));
  CHECK(s.started == Duration::nanoseconds(25));
  CHECK(s.ended == Duration::nanoseconds(35));
}

TEST_CASE("DeepEP's payload is that of a member's copies for all ranks, in the type that travels") {
  TaskGraph graph = fixture::graph();
  Collective sent{CollectiveKind::all_to_all, Group::expert, 1 << 20, DType::bf16};
  sent.copies = {64, 8, 1, 1, DType::fp8};
  Timeline written = fixture::timeline(Performer::simulated);
  written.lanes[0].spans.push_back(fixture::span(0, static_cast<std::uint16_t>(graph.templates[0].tasks.size()), 90, 91, 92));
  graph.templates[0].tasks.push_back(fixture::task("dispatch", sent, Stream::tensor));
  const auto payload = [&](const std::string& plan) {
    written.plan_json = plan;
    const std::vector<SavedTask> tasks = saved(written, graph).tasks;
    return std::ranges::find(tasks, "dispatch", &SavedTask::task)->payload.count();
  };
  double none = 1;  // of a token's 8 experts is among a rank's 8
  for (int i = 0; i < 8; ++i) none *= (56.0 - i) / (64.0 - i);
  CHECK(payload(R"({"parallel": {"expert": 8}})") == 8 * std::llround((1 << 17) * (1 - none)));
  CHECK(payload("") == 2 << 20);
}

TEST_CASE("A timeline whose table of tasks is longer than 64 KiB is read whole") {
  constexpr std::int64_t kTasks = 3000;
  TaskGraph graph = fixture::graph();
  Timeline written = fixture::timeline(Performer::simulated);
  std::vector<Task>& tasks = graph.templates[0].tasks;
  for (std::int64_t i = 1; i <= kTasks; ++i) {
    written.lanes[0].spans.push_back(fixture::span(0, static_cast<std::uint16_t>(tasks.size()), 90, 90 + i, 91 + i));
    tasks.push_back(fixture::task("more", MatMul{i, 3, 5}, Stream::compute));
  }
  written.step_time = fixture::ns(kTasks + 100);
  const TemporaryFile file("many_tasks");
  save_timeline(written, graph, file.path());
  const std::string text = read_text(file.path());
  const std::size_t table = text.find("\"tasks\":");
  REQUIRE(text.find("\"lanes\":", table) - table > std::size_t{1} << 16);

  const SavedTimeline read = read_timeline(file.path());
  std::int64_t flops = 0;
  for (const SavedTask& t : read.tasks)
    if (t.task == "more") flops += t.flops.count();
  CHECK(flops == 2 * 3 * 5 * kTasks * (kTasks + 1) / 2);
}

TEST_CASE("A number of more digits than any has is refused, not cut") {
  const TemporaryFile file("digits");
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), file.path());
  std::string text = read_text(file.path());
  const std::size_t at = text.find("\"flops\":60");
  REQUIRE(at != std::string::npos);
  text.replace(at, 10, "\"flops\":60." + std::string(std::size_t{1} << 16, '0'));
  write_text(file.path(), text);
  try {
    read_timeline(file.path());
    FAIL("accepted");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().reason == "is longer than 65536 bytes");
  }
}

TEST_CASE("Saving the same timeline twice gives the same bytes") {
  const TemporaryFile a("bytes"), b("bytes");
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), a.path());
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), b.path());
  CHECK(read_text(a.path()) == read_text(b.path()));
}

TEST_CASE("A file that is no timeline is refused with its name") {
  const std::string text = GENERATE(as<std::string>(), "", "[]", "{}", "{\"what\":3}",
                                    "{\"what\":\"tandem timeline\",\"schema_version\":2}",
                                    "{\"what\":\"tandem timeline\",\"schema_version\":1}");
  const TemporaryFile file("bad");
  write_text(file.path(), text);
  try {
    read_timeline(file.path());
    FAIL("accepted " << text);
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().file == file.path());
  }
}

TEST_CASE("A span whose task the file lacks is refused") {
  const TemporaryFile file("damaged");
  save_timeline(fixture::timeline(Performer::simulated), fixture::graph(), file.path());
  std::string text = read_text(file.path());
  const std::size_t at = text.find("\"spans\":[[0,");
  REQUIRE(at != std::string::npos);
  text.replace(at, 12, "\"spans\":[[99,");
  write_text(file.path(), text);
  CHECK_THROWS_AS(read_timeline(file.path()), ConfigError);
}

TEST_CASE("Times that end before they start, or that no sum could hold, are refused") {
  const auto bend = GENERATE(std::int64_t{-1}, std::int64_t{9'000'000'000'000'000'000});
  Timeline bent = fixture::timeline(Performer::executed);
  bent.lanes[0].spans[1].ended = bend < 0 ? bent.lanes[0].spans[1].started - Duration::picoseconds(1) : Duration::picoseconds(bend);
  const TemporaryFile file("bent");
  save_timeline(bent, fixture::graph(), file.path());
  CHECK_THROWS_AS(read_timeline(file.path()), ConfigError);
}

TEST_CASE("A span outside the graph breaks a contract instead of writing nonsense") {
  Timeline t = fixture::timeline(Performer::simulated);
  t.lanes[0].spans[0].task = 77;
  CHECK_THROWS_AS(saved(t, fixture::graph()), ContractError);
  t.lanes[0].spans[0] = {77, 0, {}, {}, {}, {}};
  CHECK_THROWS_AS(saved(t, fixture::graph()), ContractError);
}

namespace {

RunHistory history_of(const std::vector<double>& step_times, std::int64_t kept) {
  RunHistory h;
  for (const double time : step_times) h.steps.push_back({static_cast<std::int64_t>(h.steps.size()), 5.5, 2, 1e-3, time, 8});
  h.kept_step = kept;
  h.peak_memory_bytes = 4096;
  return h;
}

/// The text of a run's timeline file.
std::string run_text() {
  const TemporaryFile file("run");
  Timeline t = fixture::timeline(Performer::executed);
  t.plan_json = R"({"model":{"num_layers":2},"parallel":{"tensor":1,"pipeline":2,"data":1,"context":1},"training":{"seq_length":8}})";
  t.step_time = Duration::seconds(1e-7);
  const RunHistory history = history_of({2e-7, 1e-7}, 1);
  save_timeline(t, fixture::graph(), file.path(), nullptr, &history);
  return read_text(file.path());
}

std::string without_checksum(std::string text) {
  const std::size_t at = text.find(",\n\"checksum\"");
  REQUIRE(at != std::string::npos);
  return text.substr(0, at) + "}\n";
}

/// The refusal of a file with this text; empty where it is read.
std::vector<Problem> refusal(const std::string& text) {
  const TemporaryFile file("refused");
  write_text(file.path(), text);
  try {
    read_timeline(file.path());
  } catch (const ConfigError& e) {
    CHECK(e.problems().size() == 1);
    CHECK(e.problems().front().file == file.path());
    CHECK_FALSE(e.problems().front().remedy.empty());
    CHECK(std::string(e.what()).find("json.exception") == std::string::npos);
    return e.problems();
  }
  return {};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("No digit of a timeline file can be another one") {
  const std::string text = run_text();
  REQUIRE(refusal(text).empty());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] >= '0' && text[i] <= '9') {
      std::string bent = text;
      bent[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
      INFO("digit " << i << ": ..." << text.substr(i > 20 ? i - 20 : 0, 40));
      CHECK_FALSE(refusal(bent).empty());
    }
}

TEST_CASE("A timeline file may be written with other blanks") {
  std::string text = run_text(), wide;
  for (char c : text) wide += c == ',' ? std::string(" ,\n  ") : std::string(1, c);
  CHECK(refusal(wide).empty());
}

TEST_CASE("A damaged timeline is refused by field, value and reason, without the library's words") {
  struct Case {
    std::string from, to, field, reason;
  };
  const std::string text = run_text();
  for (const Case& c : {Case{"\"step_time_ps\":100000", "\"step_time_ps\":[]", "step_time_ps", "is a list where a whole number belongs"},
                        Case{"\"step_time_ps\":100000", "\"step_time_ps\":1e5", "step_time_ps", "a whole number belongs here"},
                        Case{"\"step_time_ps\":100000", "\"step_time_ps\":99999999999999999999", "step_time_ps", "is beyond 64 bits"},
                        Case{"\"spans\":[[0,", "\"spans\":[[\"x\",", "lanes[0].spans[0][0]", "is a string where a whole number belongs"},
                        Case{"\"spans\":[[0,", "\"spans\":[[99,", "lanes[0].spans[0][0]", "the file has no such task"},
                        Case{"\"spans\":[[0,", "\"spans\":[[", "lanes[0].spans[0]", "has less than nine columns"},
                        Case{"\"arena_bytes\":4096", "\"arena_bytes\":null", "lanes[0].arena_bytes", "is null where a whole number belongs"},
                        Case{"\"arena_bytes\":4096,", "", "lanes[0].arena_bytes", "is missing"},
                        Case{"\"ranks\":[0]", "\"ranks\":[4294967296]", "lanes[0].ranks[0]", "is beyond 32 bits"},
                        Case{"\"payload_bytes\":40", "\"payload_bytes\":{}", "tasks[1].payload_bytes", "is an object where a whole number belongs"},
                        Case{"\"kept_step\":1", "\"kept_step\":\"1\"", "run.kept_step", "is a string where a whole number belongs"},
                        Case{"\"performer\":\"executed\"", "\"performer\":\"guessed\"", "performer", "is neither simulated nor executed"},
                        Case{"\"schema_version\":1", "\"schema_version\":2", "schema_version", "is another version than 1"},
                        Case{"\"performer\"", "\"what\"", "what", "this key is given twice"}}) {
    INFO(c.from << " -> " << c.to);
    const std::vector<Problem> problems = refusal(replaced(text, c.from, c.to));
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().field == c.field);
    CHECK(problems.front().reason.find(c.reason) != std::string::npos);
  }
}

TEST_CASE("A timeline file that is cut anywhere is refused") {
  const std::string text = run_text();
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) CHECK_FALSE(refusal(text.substr(0, length)).empty());
}

TEST_CASE("A file without a checksum is read where its numbers fit each other") {
  const std::string text = without_checksum(run_text());
  CHECK(refusal(text).empty());
  struct Case {
    std::string from, to, field;
  };
  for (const Case& c : {Case{"\"step_time_ps\":100000", "\"step_time_ps\":1", "step_time_ps"},
                        Case{"\"step_time_ps\":100000", "\"step_time_ps\":900000", "step_time_ps"},
                        Case{"\"step_time_ps\":100000", "\"step_time_ps\":110000", "step_time_ps"},
                        Case{"\"ranks\":[1]", "\"ranks\":[0]", "lanes[1].ranks"},
                        Case{"\"ranks\":[1]", "\"ranks\":[1,2]", "lanes"},
                        Case{"\"kept_step\":1", "\"kept_step\":7", "run.kept_step"}}) {
    INFO(c.from << " -> " << c.to);
    const std::vector<Problem> problems = refusal(replaced(text, c.from, c.to));
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().field == c.field);
  }
}

TEST_CASE("A device, a hole and another file are refused by their first bytes or their size") {
  CHECK_THROWS_WITH(read_timeline("/dev/zero"), Catch::Contains("/dev/zero") && Catch::Contains("is not a timeline"));
  const TemporaryFile hole("hole"), begun("begun"), plan("plan");
  write_text(hole.path(), "");
  std::filesystem::resize_file(hole.path(), std::uintmax_t{40} << 30);
  CHECK_THROWS_WITH(read_timeline(hole.path()), Catch::Contains("is larger than 4 GiB"));
  write_text(begun.path(), run_text().substr(0, 200));
  std::filesystem::resize_file(begun.path(), std::uintmax_t{3} << 30);
  CHECK_THROWS_AS(read_timeline(begun.path()), ConfigError);
  write_text(plan.path(), fixture::plan_json());
  CHECK_THROWS_WITH(read_timeline(plan.path()), Catch::Contains("is not a timeline"));
}

TEST_CASE("A simulation's timeline says which measured table was behind it") {
  SavedTimeline t = saved(fixture::timeline(Performer::simulated), fixture::graph());
  const TemporaryFile file("measured");
  write_timeline(t, file.path());
  CHECK_FALSE(read_timeline(file.path()).measured_table.has_value());
  t.measured_table = "h100-sxm5-80gb";
  write_timeline(t, file.path());
  CHECK(read_timeline(file.path()).measured_table == "h100-sxm5-80gb");
}

TEST_CASE("Step times are those of the kept step's batch, without the run's first") {
  const StepTimes few = step_times(history_of({9, 3, 1, 2}, 3));
  CHECK(few.steps == 3);
  CHECK(few.median_s == 2);
  CHECK(few.low_s == 1);
  CHECK(few.high_s == 3);
  CHECK(few.has_spread());
  const StepTimes alone = step_times(history_of({9}, 0));
  CHECK(alone.steps == 1);
  CHECK(alone.median_s == 9);
  CHECK_FALSE(alone.has_spread());
  RunHistory ramp = history_of({1, 1, 1, 4, 6}, 4);
  for (std::size_t i = 0; i < 3; ++i) ramp.steps[i].global_batch_size = 4;
  CHECK(step_times(ramp).steps == 2);
  CHECK(step_times(ramp).median_s == 5);
  const StepTimes many = step_times(history_of({0, 1, 2, 3, 4, 5, 6, 7, 8}, 8));  // of 1 to 8 the middle half
  CHECK(many.low_s == 3);
  CHECK(many.high_s == 6);
  CHECK(many.median_s == 4.5);
}
