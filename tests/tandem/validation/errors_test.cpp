#include "experiments/tandem/validation/errors.hpp"

#include <cmath>
#include <utility>

#include "tests/catch.hpp"
#include "tests/tandem/validation/records.hpp"

using namespace tandem::program;
using tandem::program::test::record;

namespace {

JudgedRecord on(const std::string& calibration, const std::string& situation, const std::string& set, double predicted) {
  JudgedRecord r = record(set, set, predicted, 1);
  r.plan.calibration = calibration;
  r.situation = situation;
  return r;
}

}  // namespace

TEST_CASE("errors are kept by device, situation and set as log of measured over predicted") {
  std::vector<JudgedRecord> records = {on("a", "one node", "s", 2), on("a", "one node", "s", 0.5), on("a", "many nodes", "s", 1),
                                       on("b", "one node", "s", 4), on("", "one node", "s", 1), on("a", "one node", "s", 9)};
  records.back().measured.grade = "C";
  tandem::sim::ErrorBook before;
  before.unknown = {-1, 1, "why"}, before.uncalibrated = {0, 2, "a bound"};
  before.entries = {{"gone", "gone", "gone", 1, {0}}};
  const auto book = error_book(records, before, "this test");
  REQUIRE(book.entries.size() == 3);
  const tandem::sim::ErrorEntry& e = book.entries[1];
  CHECK((e.device == "a" && e.situation == "one node" && e.source == "s" && e.records == 2));
  CHECK(e.quantiles[0] == Approx(-std::log(2)).margin(1e-4));
  CHECK(e.quantiles[1] == Approx(std::log(2)).margin(1e-4));
  CHECK((book.unknown.low == -1 && book.unknown.reason == "why"));
  CHECK((book.uncalibrated.high == 2 && book.uncalibrated.reason == "a bound"));
  CHECK(book.computed.find("this test") != std::string::npos);
}

TEST_CASE("an entry has the months of the oldest and the newest code among its records") {
  std::vector<JudgedRecord> records;
  for (const tandem::Month month : {tandem::Month{2023, 9}, tandem::Month{2021, 4}, tandem::Month{2023, 2}}) {
    records.push_back(on("a", "one node", "s", 1));
    records.back().plan.traits.as_of = month;
  }
  const auto book = error_book(records, {}, "");
  CHECK((book.entries.at(0).since == tandem::Month{2021, 4} && book.entries.at(0).until == tandem::Month{2023, 9}));
}

TEST_CASE("the table of errors names sets and no record or plan") {
  JudgedRecord r = on("a", "one node", "the-set", 2);
  r.measured.id = r.measured.plan_json = r.plan.summary = r.plan.whole = r.plan.task = "of-one-run";
  const std::string text = tandem::sim::to_json(error_book({r}, {}, ""));
  CHECK(text.find("the-set") != std::string::npos);
  CHECK(text.find("of-one-run") == std::string::npos);
}

TEST_CASE("many errors are thinned to quantiles that lie evenly among them") {
  std::vector<JudgedRecord> records;
  for (int i = 0; i < 1000; ++i) records.push_back(on("a", "one node", "s", std::exp(-0.001 * i)));
  const auto book = error_book(records, {}, "");
  const std::vector<double>& q = book.entries.at(0).quantiles;
  REQUIRE(q.size() == 19);
  for (std::size_t i = 0; i < q.size(); ++i) CHECK(q[i] == Approx((static_cast<double>(i) + 0.5) / 19).margin(2e-3));
}

TEST_CASE("ranges are widened until they hold 80 % of records whose set they do not rest on, every set with one vote") {
  std::vector<JudgedRecord> records;
  for (const auto& [set, spread] : {std::pair("a", 0.1), std::pair("b", 0.1), std::pair("c", 1.0)})
    for (int i = 0; i < 20; ++i) records.push_back(on("d", "one node", set, std::exp(spread * (i - 9.5) / 9.5)));
  for (JudgedRecord& r : records) r.plan.traits = {{r.measured.set == "c" ? "stack new" : "stack known"}, 8};
  const auto book = error_book(records, {}, "");
  CHECK(book.entries[0].like == std::vector<std::string>{"stack known"});
  CHECK(book.entries[0].devices == 8);
  CHECK((book.seen.sources == 2 && book.seen.records == 40));
  CHECK((book.unseen.sources == 1 && book.unseen.records == 20));
  CHECK(book.seen.factor == 1);   // c's errors make the ranges of a and b wide enough
  CHECK(book.unseen.factor > 1);  // those of c rest on a and b alone
  int inside = 0;
  for (const JudgedRecord& r : records) {
    if (r.measured.set != "c") continue;
    const auto range = log_range(book, {"d", "one node", r.plan.traits, {"c"}});
    const double error = -std::log1p(r.time_error());
    inside += error >= range.low && error <= range.high;
    CHECK(range.wider == "no record on d has stack new");
  }
  CHECK(inside == 16);
}

TEST_CASE("what a record was predicted without has no part in its range") {
  std::vector<JudgedRecord> records;
  for (const char* set : {"a", "b", "c"})
    for (int i = 0; i < 10; ++i) records.push_back(on("d", "one node", set, std::exp((set[0] == 'c' ? 0.1 : 1) * (i - 4.5) / 4.5)));
  const double apart = error_book(records, {}, "").seen.factor;
  for (JudgedRecord& r : records)
    if (r.measured.set != "c") r.measured.without.sets = {"a", "b"};
  CHECK(error_book(records, {}, "").seen.factor > 2 * apart);  // a and b have c's errors alone to go by
}
