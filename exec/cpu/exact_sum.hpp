#pragma once
// Sums of doubles without rounding: Kulisch's long accumulator ("Computer Arithmetic and Validity", de Gruyter 2013,
// section 8.3), kept carry-save so that several add up word by word.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "models/ops/op.hpp"

namespace tandem::exec::cpu {

using ExactWords = std::array<std::int64_t, kExactWords>;

/// Word i holds a multiple of 2^(32 i - 1074); the last one counts terms that are not finite. Words that `words` gives are
/// below 2^32, so up to 2^20 such vectors add up word by word.
class ExactSum {
 public:
  void add(double x) {
    if (!std::isfinite(x)) {
      ++words_.back();
      return;
    }
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t fraction = bits & kFraction, biased = (bits >> 52) & 0x7FF;
    const std::uint64_t mantissa = biased == 0 ? fraction : fraction | (kFraction + 1);
    add(mantissa, biased == 0 ? 0 : biased - 1, std::signbit(x) ? -1 : 1);
    if (++uncarried_ == kMostUncarried) carry();
  }

  /// The same words for the same sum, in whatever order its terms came.
  const ExactWords& words() {
    carry();
    return words_;
  }
  /// Adds the sum to a vector of words.
  void add_to(std::int64_t* sum) {
    carry();
    for (std::size_t i = 0; i < words_.size(); ++i) sum[i] += words_[i];
  }

  /// The sum of a vector of words, or of several added up, to the nearest double; NaN where a term was not finite.
  static double value(const std::int64_t* words) {
    ExactSum sum;
    for (std::size_t i = 0; i < sum.words_.size(); ++i) sum.words_[i] = words[i];
    if (sum.words_.back() != 0) return std::numeric_limits<double>::quiet_NaN();
    sum.carry();
    if (sum.words_[kTop] >= 0) return sum.magnitude();
    for (std::int64_t& w : sum.words_) w = -w;
    sum.carry();
    return -sum.magnitude();
  }

 private:
  static constexpr std::size_t kTop = kExactWords - 2;
  static constexpr std::int64_t kMostUncarried = std::int64_t{1} << 20;
  static constexpr std::uint64_t kLow = 0xFFFFFFFF, kFraction = (std::uint64_t{1} << 52) - 1;

  // mantissa * 2^(exponent - 1074): 53 bits moved by up to 31 reach into three words.
  void add(std::uint64_t mantissa, std::uint64_t exponent, std::int64_t sign) {
    const std::uint64_t at = exponent / 32, shift = exponent % 32;
    const std::uint64_t lower = (mantissa & kLow) << shift, upper = (mantissa >> 32) << shift;
    words_[at] += sign * static_cast<std::int64_t>(lower & kLow);
    words_[at + 1] += sign * static_cast<std::int64_t>((lower >> 32) + (upper & kLow));
    words_[at + 2] += sign * static_cast<std::int64_t>(upper >> 32);
  }

  // Leaves 32 bits in every word but the top one, which has the sign.
  void carry() {
    for (std::size_t i = 0; i < kTop; ++i) {
      const std::int64_t over = words_[i] >> 32;
      words_[i] -= over * (std::int64_t{1} << 32);
      words_[i + 1] += over;
    }
    uncarried_ = 0;
  }

  // The 64 leading bits with whatever lies below as their last one, so that one rounding is left.
  double magnitude() const {
    if (words_[kTop] != 0) return std::numeric_limits<double>::infinity();
    std::size_t lead = kTop;
    while (lead > 0 && words_[lead] == 0) --lead;
    const auto word = [&](std::size_t below) { return below <= lead ? static_cast<std::uint64_t>(words_[lead - below]) : 0; };
    if (word(0) == 0) return 0;
    const std::uint64_t two = word(0) << 32 | word(1);
    const int shift = std::countl_zero(two);
    std::uint64_t leading = two << shift | (word(2) << shift) >> 32;
    bool rest = (word(2) << shift & kLow) != 0;
    for (std::size_t below = 3; below <= lead; ++below) rest = rest || word(below) != 0;
    leading |= rest ? 1 : 0;
    return std::ldexp(static_cast<double>(leading), 32 * (static_cast<int>(lead) - 1) - shift - 1074);
  }

  ExactWords words_{};
  std::int64_t uncarried_ = 0;
};

}  // namespace tandem::exec::cpu
