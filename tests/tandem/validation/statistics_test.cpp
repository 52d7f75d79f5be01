#include <vector>

#include "experiments/tandem/validation/statistics.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::program;

TEST_CASE("a median is the middle, or the mean of the two in the middle") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(mean({1, 2, 6}) == 3);
  CHECK_THROWS_AS(median({}), ContractError);
}

TEST_CASE("a weighted quantile is where the share of the weight is reached") {
  const std::vector<Weighted> values = {{10, 1}, {30, 2}, {20, 1}};
  CHECK(weighted_quantile(values, 0.25) == 10);
  CHECK(weighted_quantile(values, 0.26) == 20);
  CHECK(weighted_quantile(values, 0.5) == 20);
  CHECK(weighted_quantile(values, 0.51) == 30);
  CHECK(weighted_quantile(values, 1) == 30);
  std::vector<Weighted> even;
  for (int i = 1; i <= 10; ++i) even.push_back({static_cast<double>(i), 0.1});
  CHECK(weighted_quantile(even, 0.1) == 1);
  CHECK(weighted_quantile(even, 0.9) == 9);
}

TEST_CASE("Kendall's tau-b is 1 for the same order, -1 for the opposite, and discounts ties") {
  CHECK(kendall_tau_b({{1, 10}, {2, 20}, {3, 30}}) == 1);
  CHECK(kendall_tau_b({{1, 30}, {2, 20}, {3, 10}}) == -1);
  // 5 pairs one way, 1 the other, of 6.
  CHECK(kendall_tau_b({{1, 1}, {2, 3}, {3, 2}, {4, 4}}) == Approx(4.0 / 6));
  // x ties one pair of three: (2 - 0) / sqrt(2 x 3).
  CHECK(kendall_tau_b({{1, 1}, {1, 2}, {2, 3}}) == Approx(2 / std::sqrt(6.0)));
  CHECK(kendall_tau_b({{1, 1}, {1, 2}}) == 0);
}
