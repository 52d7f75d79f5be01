// Chances that a step takes at most some time, from a table of errors.

#include <cmath>

#include "tests/sim/result/error_books.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

TEST_CASE("the share of outcomes within a time agrees with the range, and grows from 0 to 1") {
  const auto topology = two_nodes_of("known");
  const Prediction p = seconds(10);
  const StepRange r = range_of(book(), p, topology);
  CHECK(share_within(book(), p, range_question(p, topology, {}), r.high_s * 1.0001) >= 0.9);
  CHECK(share_within(book(), p, range_question(p, topology, {}), r.low_s * 0.9999) <= 0.1);
  double before = 0;
  for (double limit = 1; limit < 100; limit *= 1.05) {
    const double share = share_within(book(), p, range_question(p, topology, {}), limit);
    CHECK(share >= before);
    before = share;
  }
  CHECK(before == 1);
  CHECK(share_within(book(), p, range_question(p, topology, {}), 0) == 0);
}

TEST_CASE("a device without records has normal errors with the default's 80 %") {
  const auto topology = two_nodes_of("never seen");
  CHECK_FALSE(has_records(precise_book(), topology));
  CHECK(has_records(precise_book(), two_nodes_of("known")));
  CHECK(share_within(precise_book(), seconds(10), range_question(seconds(10), topology, {}), 10 * std::exp(0.5)) == Approx(0.9));
  CHECK(share_within(precise_book(), seconds(10), range_question(seconds(10), topology, {}), 10 * std::exp(-0.4)) == Approx(0.1));
  CHECK(share_within(precise_book(), seconds(10), range_question(seconds(10), topology, {}), 10 * std::exp(0.05)) == Approx(0.5));
}

TEST_CASE("where a device's errors and a situation's disagree, the probability nearer to a half counts") {
  ErrorBook b = precise_book();
  b.entries.pop_back();
  b.entries.push_back({"other", "host-bound", "e", 8, {0.9, 1.0}, {}, 8, 0.9});
  const RangeQuestion question = range_question(seconds(10, 9), two_nodes_of("known"), {});
  const LogRange range = log_range(b, question);
  const auto within = [&](double error) { return share_within(b, seconds(10), question, 10 * std::exp(error)); };
  CHECK(within(0.85) == Approx(0.5));  // nearly all of the device's, and none of the situation's
  CHECK(within(range.high * 1.0001) >= 0.9);
  CHECK(within(range.high * 0.9999) < 0.9);
  CHECK(within(range.low * 1.0001 - 1e-9) <= 0.1);
  double before = 0;
  for (double error = -3; error < 3; error += 0.01) {
    CHECK(within(error) >= before);
    before = within(error);
  }
  CHECK(before == 1);
}

TEST_CASE("parts of a work with the same errors have the probability of one") {
  const auto topology = two_nodes_of("known");
  const RangeQuestion question = range_question(seconds(10), topology, {});
  for (double limit = 5; limit < 30; limit *= 1.07) {
    const double one = share_within(precise_book(), seconds(10), question, limit);
    CHECK(share_within(precise_book(), {{10, question}}, limit) == Approx(one));
    CHECK(share_within(precise_book(), {{3, question}, {2, question}, {5, question}}, limit) == Approx(one).margin(1e-6));
  }
  CHECK(share_within(precise_book(), {{3, question}, {7, question}}, 0) == 0);
}

TEST_CASE("parts of a work with other errors have the same quantile of them at a time") {
  const auto never = two_nodes_of("never seen"), bound = two_nodes_of(""), seen = two_nodes_of("known");
  const std::vector<PartOfWork> wide{{10, range_question(seconds(1), never, {})}, {20, range_question(seconds(1), bound, {})}};
  CHECK(share_within(precise_book(), wide, 10 * std::exp(0.5) + 20 * std::exp(0.8)) == Approx(0.9));
  CHECK(share_within(precise_book(), wide, 10 * std::exp(0.05) + 20 * std::exp(0.4)) == Approx(0.5));
  CHECK(share_within(precise_book(), wide, 10 * std::exp(-0.4) + 20) == Approx(0.1));
  const RangeQuestion unknown = wide.front().question, known = range_question(seconds(1), seen, {});
  for (double limit = 12; limit < 30; limit *= 1.1) {
    // What the first part takes at that share leaves the second, whose errors come in steps, enough for it and for no more.
    const double share = share_within(precise_book(), {{10, unknown}, {8, known}}, limit);
    double taken = 0, above = 100;
    while (above - taken > 1e-9) {
      const double middle = (taken + above) / 2;
      (share_within(precise_book(), {{10, unknown}}, middle) <= share ? taken : above) = middle;
    }
    CHECK(share_within(precise_book(), {{8, known}}, limit - taken + 1e-5) >= share - 1e-6);
    CHECK(share_within(precise_book(), {{8, known}}, limit - taken - 1e-3) <= share + 1e-6);
  }
}
