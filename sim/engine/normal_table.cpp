#include "sim/engine/normal_table.hpp"

#include <cmath>
#include <numbers>

namespace tandem::sim {
namespace {

/// The value that a standard normal draw exceeds with `probability`. Newton's method on the logarithm, which is nearly a parabola:
/// from a neighbour `z` it takes a few rounds.
double deviation(double probability, double z) {
  constexpr int kMostRounds = 20;
  for (int round = 0; round < kMostRounds; ++round) {
    const double beyond = std::erfc(z / std::numbers::sqrt2) / 2, density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = std::log(beyond / probability) * beyond / density;
    z += step;
    if (std::abs(step) < 1e-14) break;
  }
  return z;
}

}  // namespace

std::vector<double> NormalTable::deviations() {
  std::vector<double> out(kPoints, 0);  // a half exceeds 0
  for (std::size_t n = kPoints - 1; n-- > 0;) out[n] = deviation(std::bit_cast<double>((kFirst + n) << kCellShift), out[n + 1]);
  return out;
}

NormalTable::NormalTable(const std::function<double(double)>& f) {
  static const std::vector<double> known = deviations();
  points_.reserve(2 * kPoints);
  for (const double sign : {1.0, -1.0})
    for (const double z : known) points_.push_back(f(sign * z));
}

}  // namespace tandem::sim
