#include "experiments/tandem/validation/ranking.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/validation/records.hpp"

using namespace tandem::program;
using tandem::program::test::record;

namespace {

/// Layout `id` of one task.
JudgedRecord layout(const std::string& id, double predicted, double measured) {
  JudgedRecord r = record("set", id, predicted, measured);
  r.plan.task = "task";
  return r;
}

RecordList pointers(const std::vector<JudgedRecord>& records) {
  RecordList out;
  for (const JudgedRecord& r : records) out.push_back(&r);
  return out;
}

}  // namespace

TEST_CASE("the regret is what the plan predicted to be fastest costs beside the fastest measured") {
  const std::vector<JudgedRecord> records = {layout("a", 1.0, 2.2), layout("b", 1.1, 2.0), layout("c", 3.0, 4.0)};
  const auto groups = layout_groups(pointers(records));
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].regret() == Approx(0.1));
  CHECK(groups[0].kendall_tau() == Approx(1.0 / 3));
  const Ranking r = ranking(groups);
  CHECK((r.groups == 1 && r.plans == 3));
  CHECK(*r.mean_regret == Approx(0.1));
}

TEST_CASE("plans that are predicted alike share the regret") {
  const std::vector<JudgedRecord> records = {layout("a", 1.0, 2.0), layout("b", 1.0, 3.0)};
  CHECK(layout_groups(pointers(records))[0].regret() == Approx(0.25));
}

TEST_CASE("repeats are one plan with their mean, other tasks and lonely plans are no group") {
  const std::vector<JudgedRecord> records = {layout("a", 1, 2), layout("a", 1, 4), layout("b", 2, 3.5), record("set", "c", 1, 1)};
  const auto groups = layout_groups(pointers(records));
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].plans == std::vector<std::pair<double, double>>{{1, 3}, {2, 3.5}});
  CHECK(groups[0].regret() == 0);
}

TEST_CASE("records without a time or a prediction take no part in an order") {
  std::vector<JudgedRecord> records = {layout("a", 1, 2), layout("b", 2, 3), layout("c", 3, 1)};
  records[1].step_time_s.reset();
  records[2].measured.step_time_s.reset();
  CHECK(layout_groups(pointers(records)).empty());
  CHECK(!ranking({}).kendall_tau);
}

TEST_CASE("the noise is the slowest over the fastest repeat of a plan") {
  const std::vector<JudgedRecord> records = {layout("a", 1, 2.0), layout("a", 1, 2.2), layout("b", 1, 4.0),
                                             layout("b", 1, 5.0), layout("b", 1, 4.5), layout("c", 1, 1.0)};
  const Noise n = noise(pointers(records));
  CHECK((n.plans == 2 && n.records == 5));
  CHECK(*n.mean_spread == Approx((0.1 + 0.25) / 2));
  CHECK(*n.most_spread == Approx(0.25));
  CHECK(!noise({}).mean_spread);
}
