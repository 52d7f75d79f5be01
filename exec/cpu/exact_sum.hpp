#pragma once
// Sums of doubles without rounding: Kulisch's long accumulator ("Computer Arithmetic and Validity", de Gruyter 2013, section 8.3).
// Words are carry-save, so several sums can be added word by word.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "exec/shared/exact_words.hpp"

namespace tandem::exec::cpu {

using ExactWords = std::array<std::int64_t, kExactWords>;

/// Word i is a multiple of 2^(32 i - 1074). The last word counts terms that are not finite. Words from words() are below 2^32, so
/// up to 2^20 such vectors can be added word by word.
class ExactSum {
 public:
  void add(double x) {
    const ExactTerm term = exact_term(x);
    const auto at = static_cast<std::size_t>(term.at);
    words_[at] += term.words[0];
    if (!term.finite) return;
    words_[at + 1] += term.words[1];
    words_[at + 2] += term.words[2];
    if (++uncarried_ == kMostUncarried) carry();
  }

  /// The carried words. Equal sums have equal words, in whatever order their terms were added.
  const ExactWords& words() {
    carry();
    return words_;
  }
  /// Adds another sum.
  void add(ExactSum other) {
    other.carry();
    carry();
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] += other.words_[i];
  }
  /// Adds the sum to a vector of words.
  void add_to(std::int64_t* sum) {
    carry();
    for (std::size_t i = 0; i < words_.size(); ++i) sum[i] += words_[i];
  }

  /// The nearest double of a vector of words, or of several added up; NaN if a term was not finite.
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

  void carry() {
    carry_exact(words_.data());
    uncarried_ = 0;
  }
  double magnitude() const {
    const ExactLead lead = exact_lead(words_.data());
    return lead.infinite ? std::numeric_limits<double>::infinity() : std::ldexp(static_cast<double>(lead.bits), lead.power);
  }

  ExactWords words_{};
  std::int64_t uncarried_ = 0;
};

}  // namespace tandem::exec::cpu
