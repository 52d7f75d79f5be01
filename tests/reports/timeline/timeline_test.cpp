#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "reports/timeline/saved_timeline.hpp"
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
