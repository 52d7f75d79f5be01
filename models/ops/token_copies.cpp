#include "models/ops/token_copies.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {
namespace {

double of(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

/// Probability that none of `drawn` things out of `all` is one of `marked`.
double none_of(std::int64_t all, std::int64_t marked, std::int64_t drawn) {
  double p = 1;
  for (std::int64_t i = 0; i < drawn; ++i) p *= of(std::max<std::int64_t>(0, all - marked - i), all - i);
  return p;
}

/// Ways to choose `k` things of `n`.
double choose(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0;
  double ways = 1;
  for (std::int64_t i = 0; i < k; ++i) ways *= of(n - i, i + 1);
  return ways;
}

/// Share of tokens that have one of `count` experts from `first` on.
double share_with_any(const TokenCopies& c, std::int64_t first, std::int64_t count) {
  const std::int64_t of_group = c.experts / c.groups;
  std::map<std::pair<std::int64_t, std::int64_t>, double> ways{{{0, 0}, 1}};  // by number of chosen groups, and of experts in them
  std::int64_t apart = 0;                                                    // groups that have none of the experts
  for (std::int64_t g = 0; g < c.groups; ++g) {
    const std::int64_t here = std::min(first + count, (g + 1) * of_group) - std::max(first, g * of_group);
    if (here <= 0) {
      ++apart;
      continue;
    }
    const auto without = ways;
    for (const auto& [chosen, n] : without) ways[{chosen.first + 1, chosen.second + here}] += n;
  }
  double share = 0;
  for (const auto& [chosen, n] : ways) {
    const double none = none_of(of_group * c.groups_per_token, chosen.second, c.per_token);
    share += n * choose(apart, c.groups_per_token - chosen.first) * (1 - none);
  }
  return share / choose(c.groups, c.groups_per_token);
}

}  // namespace

double share_that_visits(const TokenCopies& c, std::int64_t parts) {
  require(parts > 0 && c.experts % parts == 0, "experts lie equally on all parts");
  const std::int64_t unlike = parts / std::gcd(parts, c.groups), of_part = c.experts / parts;  // further parts lie alike in groups
  double sum = 0;
  for (std::int64_t p = 0; p < unlike; ++p) sum += share_with_any(c, p * of_part, of_part);
  return sum / static_cast<double>(unlike);
}

}  // namespace tandem
