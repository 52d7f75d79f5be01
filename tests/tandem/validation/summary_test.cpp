#include <cmath>

#include <nlohmann/json.hpp>

#include "experiments/tandem/validation/report.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/validation/records.hpp"

using namespace tandem;
using namespace tandem::program;
using tandem::program::test::record;

namespace {

/// Set "a": +10 %, -20 %, +40 % and one of grade C; set "b": -30 %.
std::vector<JudgedRecord> some() {
  std::vector<JudgedRecord> r = {record("a", "a0", 1.1, 1), record("a", "a1", 0.8, 1), record("b", "b0", 0.7, 1),
                                 record("a", "a2", 1.4, 1), record("a", "a3", 9, 1)};
  r[4].measured.grade = "C";
  for (JudgedRecord& each : r) each.low_s = 0.8 * *each.step_time_s, each.high_s = 1.3 * *each.step_time_s;
  return r;
}

}  // namespace

TEST_CASE("a set's errors are those of its records of grades A and B") {
  const Summary v = summarise(some(), {});
  REQUIRE(v.sets.size() == 2);
  const ErrorSummary& e = v.sets[0].time;
  CHECK(e.n == 3);
  CHECK(*e.mape == Approx(0.7 / 3));
  CHECK(*e.median_ape == Approx(0.2));
  CHECK(*e.bias == Approx(0.1));
  CHECK((*e.worst == Approx(0.4) && e.worst_id == "a2"));
  CHECK((v.grade_c.n == 1 && *v.grade_c.mape == Approx(8)));
  CHECK(*v.sets[0].coverage == Approx(2.0 / 3));  // 1 lies below the range of 1.4
}

TEST_CASE("the mean over sets gives each set one vote and leaves out what is excluded") {
  CHECK(*summarise(some(), {}).over_sets.mape == Approx((0.7 / 3 + 0.3) / 2));
  const Summary v = summarise(some(), {{"a"}, {}});
  CHECK((v.over_sets.sets == 1 && *v.over_sets.mape == Approx(0.3)));
  CHECK(v.sets[0].excluded);
  CHECK(*v.over_sets.coverage_of_records == 0);  // b0: 1 is not in 0.56 to 0.91
  CHECK(*summarise(some(), {}).over_sets.coverage_of_records == Approx(0.5));
}

TEST_CASE("records without a constant are left out of what stands beside it") {
  std::vector<JudgedRecord> r = some();  // a: +0.1, -0.2, +0.4
  r[0].baseline_s = r[1].baseline_s = 1.0;
  const Summary v = summarise(r, {});
  CHECK(v.sets[0].beside_baseline.n == 2);
  CHECK(*v.sets[0].beside_baseline.mape == Approx((std::abs(r[0].time_error()) + std::abs(r[1].time_error())) / 2));
  CHECK(to_text(v, r).find("a: the constant is of 2 of its records; their mean is") != std::string::npos);
}

TEST_CASE("a set whose plans run on another cluster than they name says so") {
  std::vector<JudgedRecord> r = some();
  r[0].measured.cluster = r[1].measured.cluster = "there";
  const Summary v = summarise(r, {});
  CHECK((v.sets[0].cluster == "there" && v.sets[1].cluster.empty()));
  CHECK(to_text(v, r).find("a: its plans run on there in place of the cluster they name\n") != std::string::npos);
  CHECK(to_text(v, r).find("b: its plans run") == std::string::npos);
}

TEST_CASE("sets that are pooled are judged as one and change no mean") {
  const Summary v = summarise(some(), {{}, {{"b", "a"}}});
  REQUIRE(v.pools.size() == 1);
  CHECK((v.pools[0].name == "a+b" && v.pools[0].time.n == 4));
  CHECK(*v.pools[0].time.mape == Approx(1.0 / 4));
  CHECK(v.over_sets.mape == summarise(some()).over_sets.mape);
  CHECK(summarise(some(), {{}, {{"c"}}}).pools.empty());
}

TEST_CASE("a set that has no measurements is refused before any is simulated") {
  std::vector<Measurement> measurements;
  for (const JudgedRecord& r : some()) measurements.push_back(r.measured);
  require_known_sets({{"a"}, {{"a", "b"}, {"b"}}}, measurements);
  CHECK_THROWS_WITH(require_known_sets({{"c"}, {}}, measurements), "--exclude = c: there are no records of this set; given are a and b");
  CHECK_THROWS_WITH(require_known_sets({{}, {{"a", "c"}}}, measurements), "--pool = c: there are no records of this set; given are a and b");
  CHECK_THROWS_AS(require_known_sets({{"a"}, {}}, {}), ConfigError);
}

TEST_CASE("outcomes are counted by how the run ended and whether the plan was predicted to fit") {
  std::vector<JudgedRecord> r(5, record("a", "a", 1, 1));
  r[1].fits = r[3].fits = false;
  r[2].measured.out_of_memory = r[3].measured.out_of_memory = true;
  r[4].refused = "no";
  const FitsTable f = summarise(r, {}).fits;
  CHECK((f.ran_fits == 1 && f.ran_too_large == 1 && f.failed_fits == 1 && f.failed_too_large == 1));
}

TEST_CASE("memory is judged where it was measured") {
  std::vector<JudgedRecord> r = some();
  r[0].peak_memory_bytes = 90, r[0].measured.peak_memory_bytes = 100;
  r[1].peak_memory_bytes = 90;
  const Summary v = summarise(r, {});
  CHECK((v.sets[0].memory.n == 1 && *v.sets[0].memory.bias == Approx(-0.1)));
  CHECK(v.sets[1].memory.n == 0);
}

TEST_CASE("every record is a line of the JSON, and a refused one says why") {
  std::vector<JudgedRecord> r = some();
  r[2].step_time_s.reset();
  r[2].refused = "too odd";
  const std::string text = to_json(summarise(r, {{"b"}, {}}), r);
  const nlohmann::json out = nlohmann::json::parse(text);
  CHECK(out["sets"][1]["excluded"] == true);
  CHECK(out["sets"][1]["mape"].is_null());
  REQUIRE(out["records"].size() == r.size());
  CHECK(out["records"][2]["reason"] == "too odd");
  CHECK(out["records"][0]["error"].get<double>() == Approx(0.1));
  for (const auto& each : out["records"]) CHECK(text.find("\n    {\"id\":\"" + each["id"].get<std::string>()) != std::string::npos);
}

TEST_CASE("tables are at most 140 columns wide, whatever the names") {
  std::vector<JudgedRecord> r = some();
  r[2].measured.id = std::string(200, 'x');
  r[3].refused = std::string(300, 'y');
  const std::string text = to_text(summarise(r, {}), r);
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; from = end + 1, end = text.find('\n', from))
    CHECK(end - from <= 140);
}

TEST_CASE("the page holds its data and asks nobody for anything") {
  std::vector<JudgedRecord> r = some();
  r[0].measured.id = "</script><b>";
  const std::string page = to_html(summarise(r, {}), r);
  CHECK(page.find("\\u003c/script>") != std::string::npos);
  CHECK(page.find("</script><b>") == std::string::npos);
  CHECK(page.find("TANDEM_DATA") == std::string::npos);
  for (const char* request : {"src=", "href=", "@import", "fetch(", "XMLHttpRequest", "url(http"})
    CHECK(page.find(request) == std::string::npos);
}
