#include "exec/data/normals.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace tandem::exec {
namespace {

constexpr std::size_t kPairs = 128;  // numbers come in pairs, each from one block of four words

// ln(1 - u) for u in [0, 1): 1 - u = m 2^e with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh(s) with s = (m - 1) / (m + 1).
// |s| < 0.172, so the first term left out is below 2^-60 of the sum.
inline double log_of_rest(double u) {
  const double x = 1 - u;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD;  // the bits of sqrt(1/2)
  const std::uint64_t above = bits - kRootHalf;
  const auto e = static_cast<double>(static_cast<std::int64_t>(above) >> 52);
  const double m = std::bit_cast<double>((above & 0xFFFFFFFFFFFFF) + kRootHalf);
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 21;
#pragma GCC unroll 16
  for (int k = 19; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return 2 * s * sum + e * std::numbers::ln2;
}

struct Point {
  double cos, sin;
};

// The point at fraction u of the unit circle: nearest quarter turn plus at most an eighth, by series with an error below 2^-60.
inline Point on_circle(double u) {
  const double turns = 4 * u, quarter = std::floor(turns + 0.5), r = (turns - quarter) * (std::numbers::pi / 2), z = r * r;
  double c = 1, s = 1;
#pragma GCC unroll 16
  for (int k = 9; k >= 1; --k) {
    c = 1 - c * (z * (1.0 / ((2 * k - 1) * (2 * k))));
    s = 1 - s * (z * (1.0 / ((2 * k) * (2 * k + 1))));
  }
  s *= r;
  const auto q = static_cast<std::int64_t>(quarter);
  const bool odd = (q & 1) != 0;
  const double x = odd ? s : c, y = odd ? c : s;
  return {((q + 1) & 2) != 0 ? -x : x, (q & 2) != 0 ? -y : y};
}

// Box-Muller pairs from random words.
void pairs(const std::uint32_t* words, std::size_t count, double* out) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(-2 * log_of_rest(fraction(words[4 * i], words[4 * i + 1])));
    const Point p = on_circle(fraction(words[4 * i + 2], words[4 * i + 3]));
    out[2 * i] = radius * p.cos;
    out[2 * i + 1] = radius * p.sin;
  }
}

}  // namespace

void fill_normals(const RandomStream& stream, std::uint64_t first, std::span<double> out) {
  std::array<std::uint32_t, 4 * kPairs> words;
  std::array<double, 2 * kPairs> made;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t index = first + done, skip = index % 2;
    stream.fill_bits(index / 2 * 4, words);
    pairs(words.data(), kPairs, made.data());
    const std::size_t count = std::min<std::size_t>(out.size() - done, made.size() - skip);
    std::copy_n(made.data() + skip, count, out.data() + done);
    done += count;
  }
}

}  // namespace tandem::exec
