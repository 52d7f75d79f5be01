#pragma once
// Choice of experts for one token. A token's "keys" are the experts' scores by which the router chooses.

#include <cmath>
#include <cstdint>
#include <limits>

#include "exec/shared/vector_math.hpp"
#include "models/ops/experts.hpp"

namespace tandem::exec {

template <class A>
TANDEM_HD inline A sigmoid_score(A logit) {
  return A{1} / (A{1} + exp_saturating(-logit));
}

/// A key as it is compared. NaN is the lowest, so that every token gets its number of experts.
template <class A>
TANDEM_HD inline A comparable_key(A key) {
  return std::isnan(key) ? -std::numeric_limits<A>::infinity() : key;
}

/// True if a token's expert weights are divided by their sum.
TANDEM_HD inline bool normalizes(const MoeDims& d, const RouterRule& r) { return r.normalize && d.top_k > 1; }

/// Initial value of the sum of the chosen scores; it avoids a division by 0.
template <class A>
TANDEM_HD inline A first_of_sum(const RouterRule& r) {
  return r.scores == RouterScores::sigmoid ? static_cast<A>(kSmallestSum) : A{0};
}

/// The score of a group of `size` neighbouring experts: the largest key, or the sum of the two largest.
template <class A>
TANDEM_HD inline A score_of_group(GroupScore kind, const A* keys, std::int64_t size) {
  A best = keys[0], second = -std::numeric_limits<A>::infinity();
  for (std::int64_t e = 1; e < size; ++e) {
    const A key = keys[e], less = key > best ? best : key;
    second = less > second ? less : second;
    best = key > best ? key : best;
  }
  return kind == GroupScore::max ? best : best + second;
}

/// Sets the keys of experts outside the best groups to -infinity. Of equal groups the lower one wins. A group that was left out
/// stays worse than the kept ones, so later groups are still compared correctly.
template <class A>
TANDEM_HD inline void leave_out_groups(const RouterRule& r, A* keys, std::int64_t experts) {
  const std::int64_t size = experts / r.groups;
  for (std::int64_t g = 0; g < r.groups; ++g) {
    const A mine = score_of_group(r.group_score, keys + g * size, size);
    std::int64_t better = 0;
    for (std::int64_t h = 0; h < r.groups; ++h) {
      if (h == g) continue;
      const A other = score_of_group(r.group_score, keys + h * size, size);
      better += other > mine || (other == mine && h < g) ? 1 : 0;
    }
    for (std::int64_t e = 0; better >= r.kept_groups && e < size; ++e) keys[g * size + e] = -std::numeric_limits<A>::infinity();
  }
}

}  // namespace tandem::exec
