#include "sim/network/fair_share.hpp"

#include <algorithm>
#include <random>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

using Bundles = std::vector<std::vector<LinkUse>>;

std::vector<Rate> solve(const std::vector<Capacity>& links, const Bundles& bundles) {
  FairShare fair(links);
  const std::vector<LinkUses> spans(bundles.begin(), bundles.end());
  std::vector<Rate> rates(bundles.size());
  fair.solve(spans, rates);
  return rates;
}

std::vector<Capacity> equal_links(std::size_t n, Rate rate) { return std::vector<Capacity>(n, Capacity{rate, {}}); }

/// Textbook water filling in floating point: all open bundles rise together until a link is full; those on it stop.
std::vector<double> textbook(const std::vector<Capacity>& links, const Bundles& bundles) {
  std::vector<double> rate(bundles.size(), 0), free;
  std::vector<bool> open(bundles.size(), true);
  for (const Capacity& l : links) free.push_back(static_cast<double>(l.rate));
  for (std::size_t left = bundles.size(); left > 0;) {
    std::vector<double> rising(links.size(), 0);
    for (std::size_t b = 0; b < bundles.size(); ++b)
      if (open[b])
        for (const LinkUse& u : bundles[b]) rising[u.link] += u.flows;
    double step = 1e300;
    for (std::size_t l = 0; l < links.size(); ++l)
      if (rising[l] > 0) step = std::min(step, free[l] / rising[l]);
    for (std::size_t l = 0; l < links.size(); ++l) free[l] -= rising[l] * step;
    for (std::size_t b = 0; b < bundles.size(); ++b) {
      if (!open[b]) continue;
      rate[b] += step;
      for (const LinkUse& u : bundles[b])
        if (open[b] && free[u.link] <= 1e-9 * static_cast<double>(links[u.link].rate)) {
          open[b] = false;
          --left;
        }
    }
  }
  return rate;
}

struct Case {
  std::vector<Capacity> links;
  Bundles bundles;
};

Case random_case(std::mt19937& random) {
  Case c;
  const std::size_t links = 1 + random() % 12;
  for (std::size_t l = 0; l < links; ++l)
    c.links.push_back({static_cast<Rate>(1 + random() % 8) * 1'000'000'000'000, {}});
  const std::size_t bundles = 1 + random() % 15;
  for (std::size_t b = 0; b < bundles; ++b) {
    std::vector<LinkUse> uses;
    for (std::uint32_t l = 0; l < links; ++l)
      if (random() % 3 == 0) uses.push_back({l, static_cast<std::int32_t>(1 + random() % 4)});
    if (uses.empty()) uses.push_back({static_cast<std::uint32_t>(random() % links), 1});
    c.bundles.push_back(uses);
  }
  return c;
}

std::vector<Rate> loads(const Case& c, const std::vector<Rate>& rates) {
  std::vector<Rate> load(c.links.size(), 0);
  for (std::size_t b = 0; b < rates.size(); ++b)
    for (const LinkUse& u : c.bundles[b]) load[u.link] += u.flows * rates[b];
  return load;
}

}  // namespace

TEST_CASE("k equal flows on one link each get a k-th of it") {
  const int k = GENERATE(1, 2, 3, 7, 100);
  const auto rates = solve(equal_links(1, 50'000'000'000'000), Bundles(static_cast<std::size_t>(k), {{0, 1}}));
  for (const Rate r : rates) CHECK(r == 50'000'000'000'000 / k);
}

TEST_CASE("in a parking lot the long flow and every short one get half") {
  const std::uint32_t links = GENERATE(1u, 2u, 5u, 20u);
  Bundles bundles(1);
  for (std::uint32_t l = 0; l < links; ++l) {
    bundles[0].push_back({l, 1});
    bundles.push_back({{l, 1}});
  }
  for (const Rate r : solve(equal_links(links, 1000), bundles)) CHECK(r == 500);
}

TEST_CASE("a bundle's flows all move at the rate of its slowest, and leave the rest to others") {
  // Bundle 0 has a flow on each link; link 0 is narrow, so link 1 has room for bundle 1.
  const auto rates = solve({{100, {}}, {1000, {}}}, {{{0, 1}, {1, 1}}, {{1, 1}}});
  CHECK(rates == std::vector<Rate>{100, 900});
}

TEST_CASE("a link whose capacity depends on its users hands out the capacity of that many") {
  const std::vector<Capacity> links{{0, {100, 150, 180}}};
  CHECK(solve(links, Bundles(1, {{0, 1}})) == std::vector<Rate>(1, 100));
  CHECK(solve(links, Bundles(2, {{0, 1}})) == std::vector<Rate>(2, 75));
  CHECK(solve(links, Bundles(3, {{0, 1}})) == std::vector<Rate>(3, 60));
  CHECK(solve(links, Bundles(6, {{0, 1}})) == std::vector<Rate>(6, 30));
}

TEST_CASE("max-min rates equal those of a textbook solver on random networks") {
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(random);
    const auto rates = solve(c.links, c.bundles);
    const auto expected = textbook(c.links, c.bundles);
    // Integer shares are rounded down, by at most one unit in 1e12 a round.
    for (std::size_t b = 0; b < rates.size(); ++b)
      REQUIRE(static_cast<double>(rates[b]) == Approx(expected[b]).epsilon(1e-8));
  }
}

TEST_CASE("no link is above capacity, and every bundle has a full link on which no flow is faster") {
  std::mt19937 random(12);
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(random);
    const auto rates = solve(c.links, c.bundles);
    const auto load = loads(c, rates);
    for (std::size_t l = 0; l < load.size(); ++l) REQUIRE(load[l] <= c.links[l].rate);
    for (std::size_t b = 0; b < rates.size(); ++b) {
      const bool bottleneck = std::any_of(c.bundles[b].begin(), c.bundles[b].end(), [&](const LinkUse& u) {
        // Rounding leaves less than one unit a flow.
        if (c.links[u.link].rate - load[u.link] > 100) return false;
        for (std::size_t other = 0; other < rates.size(); ++other)
          for (const LinkUse& v : c.bundles[other])
            if (v.link == u.link && rates[other] > rates[b] + 100) return false;
        return true;
      });
      REQUIRE(bottleneck);
    }
  }
}

TEST_CASE("one more flow never raises the least rate") {
  std::mt19937 random(13);
  for (int i = 0; i < 300; ++i) {
    Case c = random_case(random);
    const auto before = solve(c.links, c.bundles);
    c.bundles.push_back({{static_cast<std::uint32_t>(random() % c.links.size()), 1}});
    const auto after = solve(c.links, c.bundles);
    REQUIRE(*std::min_element(after.begin(), after.end()) <= *std::min_element(before.begin(), before.end()));
  }
}

TEST_CASE("rates do not depend on the order of bundles, to the last bit") {
  std::mt19937 random(14);
  for (int i = 0; i < 300; ++i) {
    Case c = random_case(random);
    const auto before = solve(c.links, c.bundles);
    std::vector<std::size_t> order(c.bundles.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), random);
    Bundles shuffled;
    for (const std::size_t k : order) shuffled.push_back(c.bundles[k]);
    const auto after = solve(c.links, shuffled);
    for (std::size_t k = 0; k < order.size(); ++k) REQUIRE(after[k] == before[order[k]]);
  }
}

TEST_CASE("many alike bundles and one bundle with their flows get the same rate, to the last bit") {
  std::mt19937 random(15);
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(random);
    // Every bundle of multiplicity k over a link, as k bundles of one flow with all the links at multiplicity 1 each.
    Bundles merged = c.bundles;
    const auto k = static_cast<std::int32_t>(2 + random() % 5);
    for (LinkUse& u : merged[0]) u.flows *= k;
    Bundles split = c.bundles;
    for (std::int32_t copy = 1; copy < k; ++copy) split.push_back(c.bundles[0]);
    const auto folded = solve(c.links, merged);
    const auto whole = solve(c.links, split);
    for (std::size_t b = 0; b < folded.size(); ++b) REQUIRE(folded[b] == whole[b]);
  }
}

TEST_CASE("a link without bandwidth is refused") {
  CHECK_THROWS_AS(rate_of(Bandwidth::bytes_per_second(0)), ContractError);
}
