#pragma once
// An exact sum of doubles (exec/cpu/exact_sum) is an array of integer words. One term changes up to three of them. Because words
// are integers, terms may be added in any order, by any processor.

#include <bit>
#include <cstdint>

#include "models/ops/update.hpp"

namespace tandem::exec {

/// Word i of a sum is a multiple of 2^(32 i - 1074). The last word counts terms that are not finite.
struct ExactTerm {
  std::int64_t at = 0;         ///< index of the first of three words; for a non-finite term, of the last word
  std::int64_t words[3] = {};  ///< added to them; a non-finite term adds 1 to the last word
  bool finite = true;
};

/// A 53-bit mantissa shifted by up to 31 bits spans three words.
constexpr ExactTerm exact_term(double x) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1, kLow = 0xFFFFFFFF;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = bits & kFraction, biased = (bits >> 52) & 0x7FF;
  if (biased == 0x7FF) return {kExactWords - 1, {1, 0, 0}, false};
  const std::uint64_t mantissa = biased == 0 ? fraction : fraction | (kFraction + 1), exponent = biased == 0 ? 0 : biased - 1;
  const std::uint64_t shift = exponent % 32, lower = (mantissa & kLow) << shift, upper = (mantissa >> 32) << shift;
  const std::int64_t sign = bits >> 63 != 0 ? -1 : 1;
  return {static_cast<std::int64_t>(exponent / 32),
          {sign * static_cast<std::int64_t>(lower & kLow), sign * static_cast<std::int64_t>((lower >> 32) + (upper & kLow)),
           sign * static_cast<std::int64_t>(upper >> 32)}};
}

/// Carries so that every word but the last two has 32 bits. The last but one gets the sign. Equal sums then have equal words.
constexpr void carry_exact(std::int64_t* words) {
  for (std::int64_t i = 0; i < kExactWords - 2; ++i) {
    const std::int64_t over = words[i] >> 32;
    words[i] -= over * (std::int64_t{1} << 32);
    words[i + 1] += over;
  }
}

/// The leading bits of a carried, non-negative sum: `bits` * 2^power. The lowest bit also stands for all lower bits, so that only
/// one rounding is left. bits 0: the sum is 0. `infinite`: larger than any double.
struct ExactLead {
  std::uint64_t bits = 0;
  int power = 0;
  bool infinite = false;
};

constexpr ExactLead exact_lead(const std::int64_t* words) {
  constexpr std::int64_t kTop = kExactWords - 2;
  if (words[kTop] != 0) return {0, 0, true};
  std::int64_t lead = kTop;
  while (lead > 0 && words[lead] == 0) --lead;
  const auto word = [&](std::int64_t below) { return below <= lead ? static_cast<std::uint64_t>(words[lead - below]) : 0; };
  if (word(0) == 0) return {};
  std::uint64_t bits = word(0) << 32 | word(1);
  int shift = 0;
  while (bits >> 63 == 0) bits <<= 1, ++shift;
  bits |= (word(2) << shift) >> 32;
  bool rest = (word(2) << shift & 0xFFFFFFFF) != 0;
  for (std::int64_t below = 3; below <= lead; ++below) rest = rest || word(below) != 0;
  return {bits | (rest ? 1 : 0), 32 * (static_cast<int>(lead) - 1) - shift - 1074};
}

}  // namespace tandem::exec
