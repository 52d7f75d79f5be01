// bf16 and fp16 against their definitions: every number, ties, neighbours, and what rounding at random does in the mean.

#include "models/base/narrow.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/catch.hpp"

using namespace tandem;

namespace {

/// A number of IEEE 754's form by its definition: a sign, an exponent and so many bits of fraction, 16 in all.
template <int fraction_bits>
double value(std::uint16_t bits) {
  constexpr int most = (1 << (15 - fraction_bits)) - 1, one = 1 << fraction_bits, bias = most / 2;
  const int exponent = bits >> fraction_bits & most, fraction = bits & (one - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == most) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(one + fraction, exponent - bias - fraction_bits);
}
constexpr auto fp16_value = value<10>, bf16_value = value<7>;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// What rounds a number to bits, and bits to their value.
struct Format {
  std::uint16_t (*round)(float);
  std::uint16_t (*random)(float, std::uint32_t);
  double (*value)(std::uint16_t);
  float largest;
};
const Format kFormats[] = {{to_bf16, to_bf16, bf16_value, 0x1.FEp127F}, {to_fp16, to_fp16, fp16_value, 65504.F}};

}  // namespace

TEST_CASE("every pattern of 16 bits has the value that its format gives it, and is rounded to itself") {
  int wrong = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    wrong += !same(from_fp16(bits), fp16_value(bits)) + !same(from_bf16(bits), bf16_value(bits));
    if (!std::isnan(fp16_value(bits))) wrong += to_fp16(from_fp16(bits)) != bits;
    if (!std::isnan(bf16_value(bits))) wrong += to_bf16(from_bf16(bits)) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("numbers are rounded to the nearest, halves to the even neighbour") {
  for (const Format& f : kFormats) {
    int wrong = 0;
    for (std::uint16_t bits = 0; f.value(static_cast<std::uint16_t>(bits + 1)) <= f.largest; ++bits) {
      const double low = f.value(bits), high = f.value(static_cast<std::uint16_t>(bits + 1)), middle = (low + high) / 2;
      const auto half = static_cast<float>(middle);
      if (half != middle) continue;  // fp32's own subnormal numbers are bf16's neighbours
      const auto next = static_cast<std::uint16_t>(bits + 1), even = bits % 2 == 0 ? bits : next;
      wrong += f.round(half) != even;
      wrong += f.round(std::nextafter(half, 0.F)) != bits;
      wrong += f.round(std::nextafter(half, f.largest)) != next;
      wrong += f.round(-half) != (even | 0x8000);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what lies beyond the largest number becomes infinite, and what is none stays none") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_fp16(65519.F) == to_fp16(65504.F));
  CHECK(std::isinf(from_fp16(to_fp16(65520.F))));
  CHECK(from_fp16(to_fp16(-1e30F)) == -infinity);
  CHECK(from_bf16(to_bf16(std::numeric_limits<float>::max())) == infinity);
  for (const Format& f : kFormats) {
    CHECK(std::isnan(f.value(f.round(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(std::isnan(f.value(f.random(-std::numeric_limits<float>::quiet_NaN(), 1))));
    CHECK(f.value(f.random(infinity, 0xFFFFFFFF)) == static_cast<double>(infinity));
    CHECK(f.value(f.random(f.largest, 0xFFFFFFFF)) == static_cast<double>(f.largest));
  }
}

TEST_CASE("rounded at random, a number becomes one of its neighbours, in the mean itself") {
  std::mt19937 bits(1);
  for (const Format& f : kFormats)
    for (const float x : {1.0003F, -77.77F, 3.3e-6F, -5.1e-8F, 0.999F}) {
      if (std::abs(x) < 1e-7F && f.largest > 1e30F) continue;
      const double below = f.value(f.random(x, 0)), above = f.value(f.random(x, 0xFFFFFFFF));
      const int n = 100'000;
      double sum = 0;
      for (int i = 0; i < n; ++i) {
        const double rounded = f.value(f.random(x, static_cast<std::uint32_t>(bits())));
        REQUIRE((rounded == below || rounded == above));
        sum += rounded;
      }
      CHECK(std::abs(below) <= std::abs(x));
      CHECK(std::abs(x) <= std::abs(above));
      // Five deviations of the mean of n draws.
      CHECK(std::abs(sum / n - x) <= 5 * std::abs(above - below) / 2 / std::sqrt(n));
    }
}
