#include "sim/network/merged_links.hpp"

#include <random>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

using Uses = std::vector<std::vector<LinkUse>>;

/// Rates of the uses named by `active`.
std::vector<Rate> rates(const std::vector<Capacity>& links, const Uses& uses, const std::vector<std::size_t>& active) {
  FairShare fair(links);
  std::vector<LinkUses> bundles;
  for (const std::size_t u : active) bundles.emplace_back(uses[u]);
  std::vector<Rate> out(active.size());
  fair.solve(bundles, out);
  return out;
}

}  // namespace

TEST_CASE("of links that carry the same flows the slowest stays, and whoever is under way has the rate he had") {
  std::mt19937 random(5);
  std::size_t merged = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<Capacity> links;
    for (std::uint32_t l = 0; l < 12; ++l) {
      links.push_back({random() % 5 == 0 ? kUnlimited : static_cast<Rate>(1'000 + random() % 7), {}});
      if (random() % 6 == 0) links.back().by_users = {900, 800, 700};
    }
    // Routes over stretches of a few links each, so that many links carry the same.
    Uses uses;
    for (int u = 0; u < 8; ++u) {
      auto& use = uses.emplace_back();
      for (std::uint32_t stretch = 0; stretch < 4; ++stretch)
        if (random() % 2 == 0) {
          const auto flows = static_cast<std::int32_t>(1 + random() % 3);
          for (std::uint32_t l = 3 * stretch; l < 3 * stretch + 3; ++l) use.push_back({l, random() % 8 == 0 ? flows + 1 : flows});
        }
    }
    std::vector<Capacity> fewer = links;
    Uses over = uses;
    merge_links(fewer, over);
    merged += links.size() - fewer.size();
    for (const auto& use : over)
      for (const LinkUse& u : use) REQUIRE(u.link < fewer.size());
    for (int subset = 0; subset < 20; ++subset) {
      std::vector<std::size_t> active;
      for (std::size_t u = 0; u < uses.size(); ++u)
        if (random() % 2 == 0) active.push_back(u);
      REQUIRE(rates(fewer, over, active) == rates(links, uses, active));
    }
  }
  CHECK(merged > 500);
}

TEST_CASE("a link is kept for each set of flows, and none that nobody uses") {
  std::vector<Capacity> links(5, {100, {}});
  links[1].rate = 40;
  Uses uses{{{0, 1}, {1, 1}, {2, 1}}, {{2, 1}, {3, 2}}};
  merge_links(links, uses);
  REQUIRE(links.size() == 3);
  CHECK(links[0].rate == 40);
  CHECK(uses[0] == std::vector<LinkUse>{{0, 1}, {1, 1}});
  CHECK(uses[1] == std::vector<LinkUse>{{1, 1}, {2, 2}});
}
