#include "experiments/tandem/validation/left_out.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/validation/records.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::program;
using tandem::program::test::record;

namespace {

using Words = std::vector<std::string>;

Measurement of(const std::string& set, const Words& published_in, const Words& evidence = {}) {
  Measurement m;
  m.set = set;
  m.published_in = published_in, m.evidence = evidence;
  return m;
}

const std::vector<Measurement> kFour = {
    of("a", {"x/one"}, {"x/recipes"}), of("b", {"y/two"}), of("a2", {"x/one", "2401.10241"}), of("c", {})};

}  // namespace

TEST_CASE("a source is left out with its repositories, recipes and papers, and with sets published in the same place") {
  const std::vector<Measurement> each = left_out(kFour, {"each"});
  REQUIRE(each.size() == 4);
  CHECK(each[0].without.sets == Words{"a", "a2"});
  CHECK(each[0].without.evidence == Words{"2401.10241", "x/one", "x/recipes"});
  CHECK(each[1].without.sets == Words{"b"});
  CHECK(each[3].without.sets == Words{"c"});
  CHECK(each[3].without.evidence.empty());
  CHECK(one_source(kFour).at("a2") == "a+a2");
}

TEST_CASE("of several sources all are left out at once, and only their records are predicted so") {
  const std::vector<Measurement> both = left_out(kFour, {"b", "c"});
  REQUIRE(both.size() == 2);
  CHECK((both[0].set == "b" && both[1].set == "c"));
  CHECK(both[0].without.sets == Words{"b", "c"});
  CHECK(both[1].without.evidence == Words{"y/two"});
}

TEST_CASE("a source that nobody gave is refused with those that are") {
  CHECK_THROWS_WITH(left_out(kFour, {"nobody"}), Catch::Contains("--leave-out = nobody") && Catch::Contains("a, a2, b and c"));
}

TEST_CASE("numbers that rest on a source's step times are named, unless the file has them without it") {
  const auto fact = [](const std::string& on) { return nlohmann::json{{"value", 1}, {"fitted_on", on}}; };
  nlohmann::json file = {{"of_it", fact("step times of 9 records (some-set 5, other 4), each source one vote")},
                         {"of_another", fact("step times of 4 records (other 4), each source one vote")},
                         {"of_all", {{"inner", fact("step times of four published runs on this device")}}},
                         {"in_prose", fact("step times of Repo's twelve runs")},
                         {"measured", fact("measured on one card")},
                         {"free", fact("step times of 9 records (some-set 5, other 4), each source one vote")}};
  file["free"]["without"] = {{"some-set", 2}, {"other", 3}};
  const tests::TemporaryFolder folder;
  const std::string path = folder.file("device.json", file.dump());
  CHECK(still_fitted_on(path, {{"some-set"}, {"owner/Repo"}}) == Words{"in_prose", "of_all.inner", "of_it"});
  CHECK(still_fitted_on(path, {{"other"}, {}}) == Words{"of_all.inner", "of_another", "of_it"});
  CHECK(still_fitted_on("no-such-device", {{"a"}, {}}).empty());
}

TEST_CASE("errors without a source stand beside the usual ones, with its ranges and the share of sources half inside theirs") {
  std::vector<JudgedRecord> usual = {record("a", "a0", 1.1, 1), record("a", "a1", 0.9, 1), record("b", "b0", 1.2, 1)};
  std::vector<JudgedRecord> without = {record("a", "a0", 1.3, 1), record("a", "a1", 0.9, 1), record("b", "b0", 2, 1)};
  for (JudgedRecord& r : without) {
    r.low_s = 0.7 * *r.step_time_s, r.high_s = 1.3 * *r.step_time_s;
    r.measured.without.sets = r.measured.set == "a" ? Words{"a", "a2"} : Words{"b"};
  }
  const LeftOutSummary v = summarise_left_out(without, summarise(usual));
  REQUIRE(v.sources.size() == 2);
  CHECK(*v.sources[0].left_out.time.mape == Approx(0.2));
  CHECK(*v.sources[0].mape_with == Approx(0.1));
  CHECK(v.sources[0].together == Words{"a2"});
  CHECK(*v.sources[0].left_out.coverage == 1);
  CHECK(*v.sources[1].left_out.coverage == 0);
  CHECK(*v.over_sources.mape == Approx(0.6));
  CHECK(*v.mape_with == Approx(0.15));
  CHECK(*v.half_covered == 0.5);
  CHECK(*v.over_sources.coverage_of_records == Approx(2.0 / 3));
  CHECK(v.records.size() == 3);
}
