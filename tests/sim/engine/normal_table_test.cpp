// Draws of a table against the normal distribution itself.

#include "sim/engine/normal_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "tests/catch.hpp"

using tandem::sim::NormalTable;

namespace {

double beyond(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

/// Bits whose draw is exceeded with probability 2^-octave * (1 - share / 2), or falls below with it.
std::uint64_t bits_of(int octave, double share, bool below) {
  const double w = std::ldexp(1 - share / 2, 53 - octave) - 0.5;
  return static_cast<std::uint64_t>(w) << 12 | (below ? 1 : 0);
}

}  // namespace

TEST_CASE("a draw of the normal table is the distribution's quantile within four millionths") {
  const NormalTable draws([](double z) { return z; });
  for (int octave = 1; octave <= 30; ++octave)
    for (double share = 0.001; share < 1; share += 0.0117) {
      const std::uint64_t bits = bits_of(octave, share, false);
      const double probability = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-53, z = draws.of(bits);
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
      INFO(octave << " " << share << ": " << z);
      CHECK(std::abs(beyond(z) - probability) / density < 4e-6);
      CHECK(draws.of(bits_of(octave, share, true)) == -z);
    }
}

TEST_CASE("the rarest and the commonest bits have draws, and they are far out and near 0") {
  const NormalTable draws([](double z) { return z; });
  CHECK(draws.of(0) == Approx(8.29236).epsilon(1e-4));
  CHECK(draws.of(1) == -draws.of(0));
  CHECK(std::abs(draws.of(UINT64_MAX)) < 1e-15);
}

TEST_CASE("draws of random bits fall where normal ones do") {
  const NormalTable draws([](double z) { return z; });
  std::mt19937_64 random(11);
  constexpr int kDraws = 1'000'000;
  std::vector<double> drawn;
  for (int i = 0; i < kDraws; ++i) drawn.push_back(draws.of(random()));
  for (const double z : {-3.5, -3.0, -2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 3.0, 3.5}) {
    const auto fell = std::count_if(drawn.begin(), drawn.end(), [&](double d) { return d < z; });
    const double expected = 1 - beyond(z), share = static_cast<double>(fell) / kDraws;
    CHECK(std::abs(share - expected) < 5 * std::sqrt(expected * (1 - expected) / kDraws));
  }
}

TEST_CASE("a table of a function has its values between its points") {
  const NormalTable draws([](double z) { return z; }), squares([](double z) { return z * z; });
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bits = random();
    CHECK(squares.of(bits) == Approx(draws.of(bits) * draws.of(bits)).margin(1e-4));
  }
}
