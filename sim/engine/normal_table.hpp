#pragma once
// Functions of standard normal draws by table look-up. A logarithm, cosine and exponential each take longer than simulating a task.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tandem::sim {

/// A function of standard normal draws, linear between points of the distribution: 128 in each octave of the probability that a draw
/// is further from 0, down to 2^-54. A draw itself is within 4e-6 of the quantile.
class NormalTable {
 public:
  /// Tabulates `f`, which is called once for each point.
  explicit NormalTable(const std::function<double(double)>& f);

  /// Returns `f` of the normal draw that belongs to 64 random bits.
  double of(std::uint64_t bits) const {
    const double beyond = (static_cast<double>(static_cast<std::int64_t>(bits >> 12)) + 0.5) * 0x1p-53;  // exact, below a half
    const auto place = std::bit_cast<std::uint64_t>(beyond);
    const double* const from = &points_[(bits & 1) * kPoints + static_cast<std::size_t>((place >> kCellShift) - kFirst)];
    const double share = std::bit_cast<double>((place << kCellBits & kFraction) | kOne) - 1;
    return from[0] + share * (from[1] - from[0]);
  }

 private:
  static constexpr int kMantissa = 52, kCellBits = 7, kCellShift = kMantissa - kCellBits;
  static constexpr std::uint64_t kFraction = (std::uint64_t{1} << kMantissa) - 1, kOne = std::bit_cast<std::uint64_t>(1.0);
  static constexpr std::uint64_t kFirst = std::bit_cast<std::uint64_t>(0x1p-54) >> kCellShift;
  static constexpr std::size_t kPoints = (std::bit_cast<std::uint64_t>(0.5) >> kCellShift) - kFirst + 1;

  static std::vector<double> deviations();

  std::vector<double> points_;  ///< `f` of draws above 0 from the rarest on, then of those below
};

}  // namespace tandem::sim
