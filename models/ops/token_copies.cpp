#include "models/ops/token_copies.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem {
namespace {

double of(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

/// Of `drawn` things out of `all`, none is one of `marked`.
double none_of(std::int64_t all, std::int64_t marked, std::int64_t drawn) {
  double p = 1;
  for (std::int64_t i = 0; i < drawn; ++i) p *= of(std::max<std::int64_t>(0, all - marked - i), all - i);
  return p;
}

/// Of `drawn` things out of `all`, exactly `hit` are among `marked`.
double exactly(std::int64_t all, std::int64_t marked, std::int64_t drawn, std::int64_t hit) {
  double p = none_of(all, marked, drawn - hit);
  // In which order hits and misses come does not matter: as if all misses came first, times the number of orders.
  for (std::int64_t i = 0; i < hit; ++i)
    p *= of(marked - i, all - (drawn - hit) - i) * of(drawn - i, i + 1);
  return p;
}

}  // namespace

double share_that_visits(const TokenCopies& c, std::int64_t parts) {
  require(parts > 0 && c.experts % parts == 0, "experts lie equally on all parts");
  const std::int64_t kept = c.experts / c.groups * c.groups_per_token;  // experts that a token may choose from
  if (parts >= c.groups) {  // a part lies inside one group, or touches two
    const double chosen = of(c.groups_per_token, c.groups);
    return chosen * (1 - none_of(kept, std::min(kept, c.experts / parts), c.per_token));
  }
  const std::int64_t here = c.groups / parts;
  double visits = 0;
  for (std::int64_t hit = 1; hit <= std::min(here, c.groups_per_token); ++hit)
    visits += exactly(c.groups, here, c.groups_per_token, hit) * (1 - none_of(kept, hit * (c.experts / c.groups), c.per_token));
  return visits;
}

}  // namespace tandem
