#include "exec/cpu/exact_sum.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace tandem::exec::cpu {
namespace {

using Terms = std::vector<double>;

ExactWords words(const Terms& terms) {
  ExactSum sum;
  for (const double t : terms) sum.add(t);
  return sum.words();
}
double value(const Terms& terms) { return ExactSum::value(words(terms).data()); }

constexpr double kTiny = std::numeric_limits<double>::denorm_min(), kHuge = std::numeric_limits<double>::max();

// Random terms of both signs, with exponents over the whole range of doubles.
Terms random_terms(std::size_t n, unsigned seed, int lowest, int highest) {
  std::mt19937_64 generator(seed);
  Terms terms;
  for (std::size_t i = 0; i < n; ++i) {
    const double fraction = static_cast<double>(generator() >> 11) * 0x1p-53 - 0.5;
    terms.push_back(std::ldexp(fraction, lowest + static_cast<int>(generator() % static_cast<unsigned>(highest - lowest))));
  }
  return terms;
}

}  // namespace

TEST_CASE("an exact sum of one double is that double") {
  for (const double x : {0.0, 1.0, -1.0, 0.1, kTiny, -3 * kTiny, 0x1p-1022, 0x1.fffffffffffffp-1023, kHuge, -kHuge, 1e300, 1e-300})
    CHECK(value({x}) == x);
  for (const double x : random_terms(2000, 3, -1060, 1020)) REQUIRE(value({x}) == x);
}

TEST_CASE("nothing is lost beside larger terms") {
  CHECK(value({1e300, kTiny, -1e300}) == kTiny);
  CHECK(value({kHuge, kHuge, 1, -kHuge, -kHuge}) == 1);
  CHECK(value({-kTiny, 1, -1}) == -kTiny);
  CHECK(value({0x1p100, 1, -0x1p100, -1}) == 0);
}

TEST_CASE("a sum is rounded once, to the nearest and ties to even") {
  CHECK(value({1, 0x1p-53}) == 1);
  CHECK(value({1, 0x1p-53, kTiny}) == 1 + 0x1p-52);
  CHECK(value({1, 0x1p-53, -kTiny}) == 1);
  CHECK(value({1 + 0x1p-52, 0x1p-53}) == 1 + 0x1p-51);
  CHECK(value({-1, -0x1p-53, -kTiny}) == -1 - 0x1p-52);
  CHECK(value({0x1p64, 0x1p11, 1}) == 0x1p64 + 0x1p12);
  CHECK(value({0x1p64, 0x1p11}) == 0x1p64);
}

TEST_CASE("a sum of integers is exact") {
  std::mt19937_64 generator(5);
  Terms terms;
  std::int64_t sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto n = static_cast<std::int64_t>(generator() % (std::uint64_t{1} << 42)) - (std::int64_t{1} << 40);
    terms.push_back(std::ldexp(static_cast<double>(n), -200));
    sum += n;
  }
  CHECK(value(terms) == std::ldexp(static_cast<double>(sum), -200));
}

TEST_CASE("an exact sum agrees with one in long doubles") {
  const Terms terms = random_terms(5000, 7, -30, 30);
  long double sum = 0;
  for (const double t : terms) sum += t;
  CHECK(value(terms) == Approx(static_cast<double>(sum)).epsilon(1e-15));
}

TEST_CASE("the words of a sum do not depend on the order of its terms") {
  Terms terms = random_terms(3000, 9, -1060, 1010);
  const ExactWords first = words(terms);
  std::shuffle(terms.begin(), terms.end(), std::mt19937(1));
  CHECK(words(terms) == first);
  std::sort(terms.begin(), terms.end());
  CHECK(words(terms) == first);
}

TEST_CASE("words of parts add up to the sum of the whole, over many ranks") {
  const Terms terms = random_terms(4000, 11, -300, 300);
  ExactWords sum{};
  for (std::size_t i = 0; i < terms.size(); i += 4) {
    ExactSum part;
    for (std::size_t j = i; j < i + 4; ++j) part.add(terms[j]);
    part.add_to(sum.data());
  }
  CHECK(ExactSum::value(sum.data()) == value(terms));
  ExactWords million{};
  ExactSum most;
  most.add(0x1.fffffffffffffp100);
  for (int i = 0; i < 1 << 20; ++i) most.add_to(million.data());
  CHECK(ExactSum::value(million.data()) == 0x1.fffffffffffffp120);
}

TEST_CASE("more terms than a word holds without carrying") {
  ExactSum sum;
  const int terms = (1 << 20) + 12345;
  for (int i = 0; i < terms; ++i) sum.add(0x1.fffffffffffffp-1);
  CHECK(ExactSum::value(sum.words().data()) == static_cast<double>(terms) - static_cast<double>(terms) * 0x1p-53);
}

TEST_CASE("a term that is not finite makes the sum not finite, and a sum too large is infinite") {
  const double bad = GENERATE(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::nan(""));
  CHECK(std::isnan(value({1, bad, 2})));
  CHECK(std::isnan(value({bad, -bad})));
  CHECK(value({kHuge, kHuge}) == std::numeric_limits<double>::infinity());
  CHECK(value({-kHuge, -kHuge}) == -std::numeric_limits<double>::infinity());
}

}  // namespace tandem::exec::cpu
