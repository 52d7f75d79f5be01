#pragma once
// Cases such that every two values that can stand in one plan stand together in one of them.

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/agree/features.hpp"

namespace tandem::tests {

/// One value of one dimension, and a pair of them, the lower dimension first.
using Choice = std::pair<std::uint8_t, std::uint8_t>;
using Pair = std::pair<Choice, Choice>;

struct Covering {
  std::vector<Case> cases;
  std::map<Pair, int> count;               ///< cases that have the pair; every possible pair
  std::map<Pair, std::string> impossible;  ///< why no plan has both
};

/// Seed of the cases that the tests run.
inline constexpr std::uint64_t kCoveringSeed = 20261120;

/// All pairs of values of different dimensions.
std::vector<Pair> all_pairs();
/// The pairs of one case.
std::vector<Pair> pairs_of(const Case& c);

/// Greedy and deterministic: of some legal plans with the next missing pair, the one with most missing pairs (after
/// AETG, Cohen et al., IEEE TSE 23(7), 1997). A pair is called impossible when none of many plans with it is legal.
Covering cover_pairs(std::uint64_t seed);

/// Different legal plans drawn at random: `number` of them.
std::vector<Case> random_cases(std::size_t number, std::uint64_t seed);

/// The table for people: the cases; for two dimensions how many pairs of their values are covered and impossible; each
/// impossible pair with its reason.
void print(const Covering& covering, std::ostream& out);

}  // namespace tandem::tests
